// Zoom and search in a flame graph. A frame's group has its place (data-x), its width (data-w), both
// as shares of the picture, and its depth (data-d).
(function () {
  'use strict';
  var LEFT = 12, WIDTH = 1176, LETTER = 6.6, NARROWEST = 0.4, NEAR = 1e-9;
  var found = document.getElementById('found');
  var frames = Array.from(document.querySelectorAll('g[data-x]'), function (group) {
    return {
      group: group,
      box: group.querySelector('rect'),
      label: group.querySelector('text'),
      name: group.getAttribute('data-n'),
      x: Number(group.getAttribute('data-x')),
      width: Number(group.getAttribute('data-w')),
      depth: Number(group.getAttribute('data-d')),
    };
  });

  function place(frame, x, width, faded) {
    var letters = Math.floor((width - 6) / LETTER);
    frame.group.style.display = width < NARROWEST ? 'none' : '';
    frame.group.style.opacity = faded ? 0.5 : 1;
    frame.box.setAttribute('x', x);
    frame.box.setAttribute('width', width);
    frame.label.setAttribute('x', x + 3);
    if (letters < 3) frame.label.textContent = '';
    else if (frame.name.length <= letters) frame.label.textContent = frame.name;
    else frame.label.textContent = frame.name.slice(0, letters - 1) + '…';
  }

  function zoom(to) {
    frames.forEach(function (frame) {
      var begins = frame.x <= to.x + NEAR && frame.x + frame.width >= to.x + to.width - NEAR;
      var inside = frame.x >= to.x - NEAR && frame.x + frame.width <= to.x + to.width + NEAR;
      if (frame.depth < to.depth && begins) place(frame, LEFT, WIDTH, true);
      else if (frame.depth >= to.depth && inside)
        place(frame, LEFT + ((frame.x - to.x) / to.width) * WIDTH, (frame.width / to.width) * WIDTH, false);
      else frame.group.style.display = 'none';
    });
  }

  function search(text) {
    var wanted = (text || '').toLowerCase(), share = 0, until = -1;
    frames.forEach(function (frame) {
      var matches = wanted !== '' && frame.name.toLowerCase().indexOf(wanted) >= 0;
      frame.box.setAttribute('stroke', matches ? '#d0006f' : '#ffffff');
      frame.box.setAttribute('stroke-width', matches ? 2 : 0.6);
      // A frame within one that was found before has no further time.
      if (matches && frame.x >= until - NEAR) {
        share += frame.width;
        until = frame.x + frame.width;
      }
    });
    found.textContent = wanted === '' ? 'search' : 'found: ' + (100 * share).toFixed(1) + ' %';
  }

  var all = { x: 0, width: 1, depth: 0 };
  frames.forEach(function (frame) {
    frame.group.style.cursor = 'pointer';
    frame.group.addEventListener('click', function () {
      zoom(frame);
    });
  });
  document.getElementById('all').addEventListener('click', function () {
    zoom(all);
  });
  found.addEventListener('click', function () {
    search(window.prompt('Part of a function name; empty to end the search', ''));
  });
})();
