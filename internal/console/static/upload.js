// Pages work without this file. It shows how far an upload, a check or an import is.
(function () {
  "use strict";
  function follow() {
    var job = document.querySelector("[data-events]");
    if (!job || !window.EventSource) return;
    var events = new EventSource(job.dataset.events);
    events.onmessage = function (e) {
      var now = JSON.parse(e.data), bar = document.getElementById("job-bar"), text = document.getElementById("job-text");
      if (bar) bar.value = now.percent;
      if (text && text.textContent !== now.text) text.textContent = now.text;
    };
    events.addEventListener("end", function () { events.close(); location.reload(); });
  }
  function send(form) {
    var file = form.querySelector("input[type=file]"), job = form.querySelector(".job"), bar = job.querySelector("progress"), text = job.querySelector("span");
    form.addEventListener("submit", function (e) {
      var chosen = file.files[0];
      if (!chosen) return;
      e.preventDefault();
      job.hidden = false;
      if (chosen.size > Number(form.dataset.max)) {
        text.textContent = "The file is larger than " + form.dataset.limit + ", so it was not sent. Split it, or import it with enqueue, which takes files of any size.";
        return;
      }
      var button = form.querySelector("button"), request = new XMLHttpRequest();
      button.disabled = true;
      function failed(what) { button.disabled = false; text.textContent = what; }
      request.upload.onprogress = function (e) {
        if (!e.lengthComputable) return;
        bar.value = Math.floor(100 * e.loaded / e.total);
        text.textContent = e.loaded < e.total ? bar.value + " % sent" : "Sent. The console reads it.";
      };
      request.onload = function () {
        if (request.status === 200) { location.assign(request.responseURL); return; }
        var said = new DOMParser().parseFromString(request.responseText, "text/html").querySelector("main .notice[role=alert]:not([hidden])");
        failed(said ? said.textContent : "The console did not take the file.");
      };
      request.onerror = function () { failed("The upload broke off, and nothing was kept. Upload the file again."); };
      request.open("POST", form.action);
      request.send(new FormData(form));
    });
  }
  follow();
  document.querySelectorAll("form.upload").forEach(send);
})();
