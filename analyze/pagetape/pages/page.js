// SPDX-License-Identifier: Apache-2.0
// Sorts and filters tables, shows values at the pointer, enlarges pictures, scrubs maps.
// Without this script the page has the same tables and pictures.
"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (name, values, ...children) => {
    const node = Object.assign(document.createElement(name), values);
    node.append(...children);
    return node;
  };
  const value = (row, i) => {
    const words = row.cells[i].textContent;
    const number = parseFloat(words.replaceAll(",", ""));
    return row.cells[i].classList.contains("n") ? (isNaN(number) ? -Infinity : number) : words;
  };

  for (const table of all("table:has(thead)")) {
    const heads = all("thead th", table), body = table.tBodies[0];
    heads.forEach((head, i) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      head.replaceChildren(button);
      head.scope = "col";
      button.addEventListener("click", () => {
        const first = head.classList.contains("n") ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.ariaSort === first ? other : first;
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.ariaSort = order;
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...body.rows].sort((a, b) => {
          const x = value(a, i), y = value(b, i);
          return sign * (typeof x === "string" ? x.localeCompare(y) : x < y ? -1 : x > y ? 1 : 0);
        });
        body.append(...rows);
      });
    });
    if (body.rows.length < 6) continue;
    const filter = make("input", { type: "search", placeholder: "filter rows" });
    filter.ariaLabel = "filter rows";
    const count = make("output", {});
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      let shown = 0;
      for (const row of body.rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        shown += !row.hidden;
      }
      count.textContent = wanted ? `${shown} of ${body.rows.length} rows` : "";
    });
    table.parentElement.before(make("div", { className: "tools" }, filter, count));
  }

  // The value at the pointer, at once and beside it.
  const tip = make("div", { id: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  for (const title of all("svg title")) {
    const node = title.parentElement;
    node.dataset.tip = title.textContent;
    node.ariaLabel = title.textContent;
    title.remove();
  }
  const hide = () => { tip.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const node = event.target.closest?.("[data-tip]");
    if (!node) return hide();
    tip.textContent = node.dataset.tip;
    tip.hidden = false;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
  });
  document.addEventListener("scroll", hide, true);

  // A picture over the whole window; Escape closes it.
  const dialog = make("dialog", { id: "large" });
  const close = make("button", { type: "button", textContent: "Close" });
  close.addEventListener("click", () => dialog.close());
  dialog.ariaLabel = "enlarged picture";
  document.body.append(dialog);
  for (const figure of all("figure:has(svg)")) {
    const button = make("button", { type: "button", className: "enlarge", textContent: "Enlarge" });
    button.ariaLabel = `Enlarge ${figure.querySelector("svg").ariaLabel ?? "picture"}`;
    button.addEventListener("click", () => {
      const pictures = all("svg", figure).map((svg) => svg.cloneNode(true));
      dialog.replaceChildren(close, ...pictures, tip);
      dialog.showModal();
    });
    figure.append(button);
  }
  dialog.addEventListener("close", () => { hide(); document.body.append(tip); });

  // Maps of several snapshots, one at a time.
  for (const maps of all(".moments")) {
    const moments = all(":scope > .moment", maps);
    if (moments.length < 2) continue;
    const scrub = make("input", { type: "range", min: 0, max: moments.length - 1, step: 1 });
    scrub.value = moments.length - 1;
    scrub.ariaLabel = "snapshot of the map";
    const show = () => {
      moments.forEach((moment, i) => { moment.hidden = i !== Number(scrub.value); });
      scrub.ariaValueText = moments[scrub.value].dataset.name;
    };
    scrub.addEventListener("input", show);
    maps.prepend(make("label", { className: "tools" }, "Snapshot ", scrub));
    show();
  }
})();
