// Pages work without this file. It stops updates of a page that nobody sees, says when the
// console does not answer, so that nobody takes old figures for new ones, and writes the
// time of the reader's place beside UTC.
(function () {
  "use strict";
  function lost(away) {
    var box = document.getElementById("lost");
    if (!box || box.hidden === !away) return;
    if (away) document.getElementById("lost-at").textContent = new Date().toISOString().slice(11, 19) + " UTC";
    box.hidden = !away;
  }
  function local() {
    document.querySelectorAll("time[datetime]").forEach(function (time) {
      var at = new Date(time.dateTime);
      if (isNaN(at) || at.getTimezoneOffset() === 0 || time.querySelector(".local")) return;
      var form = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" };
      if (at.getDate() !== at.getUTCDate()) { form.month = "short"; form.day = "numeric"; }
      var here = document.createElement("span");
      here.className = "local";
      here.textContent = " (" + at.toLocaleString("en", form) + ")";
      time.append(here);
    });
  }
  function wide() {
    document.querySelectorAll(".wide").forEach(function (box) {
      box.classList.toggle("more", box.scrollWidth > box.clientWidth + 1);
    });
  }
  function dress() { local(); wide(); }
  dress();
  window.addEventListener("resize", wide);
  document.addEventListener("htmx:before:request", function (e) {
    if (document.hidden) e.preventDefault();
  });
  document.addEventListener("htmx:error", function () { lost(true); });
  document.addEventListener("htmx:response:error", function () { lost(true); });
  document.addEventListener("htmx:after:swap", function () { lost(false); dress(); });
})();
