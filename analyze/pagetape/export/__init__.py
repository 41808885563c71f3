# SPDX-License-Identifier: Apache-2.0
"""Export: conversion of tapes for other tools."""
