// Pages work without this file: each row has a link that makes its cells fields. It makes one cell a field in its place,
// moves between cells by the keys of a grid (WAI-ARIA, Grid Pattern), and says how much was changed.
(function () {
  "use strict";
  function setUp(grid) {
    var form = grid.closest("form"), said = form.querySelector("[data-changes]"), here = null, sending = false;
    function cellsOf(row) { return Array.from(row.cells); }
    function control(cell) { return cell.querySelector("input:not([type=hidden]), a"); }
    function go(cell) {
      if (!cell) return;
      if (here) here.tabIndex = -1;
      here = cell;
      cell.tabIndex = 0;
      cell.focus();
    }
    function step(cell, down, right) {
      var row = cell.parentNode, rows = Array.from(grid.rows), at = rows.indexOf(row) + down;
      var cells = cellsOf(rows[Math.max(0, Math.min(rows.length - 1, at))]);
      go(cells[Math.max(0, Math.min(cells.length - 1, cell.cellIndex + right))]);
    }
    function hidden(name, value) {
      var input = document.createElement("input");
      input.type = "hidden"; input.name = name; input.value = value;
      return input;
    }
    function edit(cell) {
      var field = control(cell);
      if (!field && cell.dataset.column) {
        field = document.createElement("input");
        field.type = "text"; field.name = "now"; field.className = "foreign"; field.maxLength = 200;
        field.value = cell.dataset.value; field.tabIndex = -1; field.autocomplete = "off"; field.spellcheck = false;
        field.setAttribute("aria-label", cell.dataset.name + ", " + grid.dataset.unit + " " + cell.dataset.line);
        cell.replaceChildren(hidden("line", cell.dataset.line), hidden("column", cell.dataset.column), hidden("was", cell.dataset.value), field);
      }
      if (!field) return;
      if (field.type === "checkbox") { field.checked = !field.checked; count(); return; }
      if (field.tagName === "A") { field.click(); return; }
      field.focus();
      field.select();
    }
    function changes() {
      var fields = Array.from(grid.querySelectorAll("input[name=now]")).filter(function (f) { return f.value !== f.closest("td").dataset.value; });
      return [fields.length, grid.querySelectorAll("input[name=leave]:checked").length];
    }
    function count() {
      var n = changes(), parts = [];
      if (n[0]) parts.push(n[0] + (n[0] === 1 ? " cell" : " cells") + " changed");
      if (n[1]) parts.push(n[1] + (n[1] === 1 ? " row" : " rows") + " to be left out");
      said.textContent = parts.length ? parts.join(", ") + ": not checked yet." : "";
    }
    var keys = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], Home: [0, -1e6], End: [0, 1e6], PageDown: [10, 0], PageUp: [-10, 0] };
    grid.addEventListener("keydown", function (e) {
      var cell = e.target.closest("td, th");
      if (!cell || e.altKey || e.metaKey) return;
      if (e.target !== cell && e.target.type === "text") {
        if (e.key === "Escape") { e.target.value = cell.dataset.value; count(); go(cell); }
        else if (e.key === "Enter") { e.preventDefault(); count(); step(cell, 1, 0); }
        return;
      }
      var by = keys[e.key];
      if (by) {
        e.preventDefault();
        if (e.ctrlKey && by[1]) by = [by[1], by[1]];
        step(cell, by[0], by[1]);
      } else if (e.key === "Enter" || e.key === "F2" || e.key === " " && control(cell)) {
        if (e.target !== cell && e.key !== "F2") return; // the control's own key
        e.preventDefault();
        edit(cell);
      }
    });
    grid.addEventListener("keypress", function (e) { if (e.key === "Enter" && e.target.type === "text") e.preventDefault(); }); // it would send the form
    grid.addEventListener("dblclick", function (e) { var cell = e.target.closest("td"); if (cell && cell.dataset.column) edit(cell); });
    grid.addEventListener("focusin", function (e) {
      var cell = e.target.closest("td, th");
      if (cell && cell !== here) { if (here) here.tabIndex = -1; here = cell; cell.tabIndex = 0; }
    });
    grid.addEventListener("input", count);
    form.addEventListener("submit", function () { sending = true; });
    window.addEventListener("beforeunload", function (e) { if (!sending && changes().some(Boolean)) e.preventDefault(); });
    Array.from(grid.rows).forEach(function (row) { cellsOf(row).forEach(function (cell) { cell.tabIndex = -1; }); });
    grid.querySelectorAll("input, a").forEach(function (c) { c.tabIndex = -1; });
    here = (grid.querySelector("input[name=now]") || grid.rows[1].cells[0]).closest("td, th");
    here.tabIndex = 0;
    grid.closest("[tabindex='0'].wide").removeAttribute("tabindex");
  }
  document.querySelectorAll("table[role=grid]").forEach(setUp);
})();
