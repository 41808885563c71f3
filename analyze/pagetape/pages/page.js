// SPDX-License-Identifier: Apache-2.0
// Sorts and filters tables, shows values at the pointer, enlarges and zooms pictures, scrubs maps.
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

  // Arrow keys go through the values of a picture; the tip is read out.
  const reachable = (svg) => {
    const marks = all("[data-tip]", svg);
    let at = -1;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-roledescription", "picture; arrow keys show its values");
    svg.addEventListener("keydown", (event) => {
      if (event.shiftKey) return;
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const to = { Home: 0, End: marks.length - 1 }[event.key] ?? (step && at + step);
      if (to === undefined) return;
      event.preventDefault();
      at = Math.min(Math.max(to, 0), marks.length - 1);
      marks.forEach((mark, i) => mark.classList.toggle("current", i === at));
      const box = marks[at].getBoundingClientRect();
      tip.textContent = marks[at].dataset.tip;
      tip.hidden = false;
      tip.style.left = `${Math.max(Math.min(box.left, innerWidth - tip.offsetWidth - 8), 4)}px`;
      tip.style.top = `${Math.min(box.bottom + 6, innerHeight - tip.offsetHeight - 8)}px`;
    });
    svg.addEventListener("blur", () => {
      hide();
      marks.forEach((mark) => mark.classList.remove("current"));
    });
    return svg;
  };
  all("svg:has([data-tip])").forEach(reachable);

  // Zoom with the wheel or + and -, move with the pointer or Shift and arrows, 0 shows all.
  const zooming = (svg) => {
    const [left, top, width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const box = { x: left, y: top, w: width, h: height };
    const show = () => {
      box.w = Math.min(Math.max(box.w, width / 40), width);
      box.h = (box.w * height) / width;
      box.x = Math.min(Math.max(box.x, left), left + width - box.w);
      box.y = Math.min(Math.max(box.y, top), top + height - box.h);
      svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`);
    };
    const zoom = (factor, x = 0.5, y = 0.5) => {
      const w = Math.min(Math.max(box.w * factor, width / 40), width);
      box.x += (box.w - w) * x;
      box.y += (box.h - (w * height) / width) * y;
      box.w = w;
      show();
    };
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = svg.getBoundingClientRect();
      const x = (event.clientX - at.left) / at.width, y = (event.clientY - at.top) / at.height;
      zoom(event.deltaY > 0 ? 1.25 : 0.8, x, y);
    }, { passive: false });
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      from = event;
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const at = svg.getBoundingClientRect();
      box.x -= ((event.clientX - from.clientX) / at.width) * box.w;
      box.y -= ((event.clientY - from.clientY) / at.height) * box.h;
      from = event;
      show();
    });
    svg.addEventListener("pointerup", () => { from = null; });
    svg.addEventListener("keydown", (event) => {
      if (event.key === "+") zoom(0.8);
      else if (event.key === "-") zoom(1.25);
      else if (event.key === "0") zoom(40);
      else if (event.shiftKey && event.key.startsWith("Arrow")) {
        box.x += { ArrowLeft: -0.1, ArrowRight: 0.1 }[event.key] * box.w || 0;
        box.y += { ArrowUp: -0.1, ArrowDown: 0.1 }[event.key] * box.h || 0;
        show();
      } else return;
      event.preventDefault();
    });
    return svg;
  };

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
      const pictures = all("svg", figure).map((svg) => zooming(reachable(svg.cloneNode(true))));
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
