// The shaders that draw the items of tiles: one instance per item, read as the server sent it.
//
// Each batch is drawn twice. The first pass draws bars in the colour of the dominant state. The
// second one draws ticks at the bottom of those bars that hide something more serious, in the
// colour of the worst state; the depth test lets the most serious tick of a pixel win, so a
// microsecond of waiting is visible in a view of an hour. The depth test also keeps sleeping from
// covering what happened in the same pixel.

/** Width of the texture with the positions of rows. */
export const ROW_TEXTURE_WIDTH = 1024;
/** Width of the texture with the colours of states. */
export const STATE_TEXTURE_WIDTH = 256;

export const VERTEX_SHADER = `#version 300 es
precision highp float;
precision highp int;

layout(location = 0) in vec2 aTimes;   // begin and end, in bins
layout(location = 1) in uvec2 aStates; // dominant and worst state
layout(location = 2) in uvec2 aShares; // busy and on the path, 0 to 255
layout(location = 3) in uint aRow;     // slot in the table of rows

uniform vec2 uCanvas;    // width and height of the canvas
uniform vec2 uTransform; // offset, and pixels per bin
uniform vec2 uScroll;    // offset of the rows; 1 for pinned rows
uniform float uRatio;    // device pixels per CSS pixel
uniform int uPass;       // 0: bars, 1: ticks
uniform highp sampler2D uRows;
uniform highp sampler2D uStates;

flat out vec4 vColour;
flat out int vClass;
flat out float vPath;
flat out float vTop;

const float BAR_INSET = 2.0;
const float TICK_HEIGHT = 5.0;
const int RUNNING = 1;

vec4 colourOf(uint state) {
  int i = int(state);
  return texelFetch(uStates, ivec2(i % ${STATE_TEXTURE_WIDTH}, i / ${STATE_TEXTURE_WIDTH}), 0);
}

int classOf(vec4 colour) { return int(colour.a * 255.0 + 0.5); }

void main() {
  int slot = int(aRow);
  ivec2 place = ivec2(slot % ${ROW_TEXTURE_WIDTH}, slot / ${ROW_TEXTURE_WIDTH});
  vec2 row = texelFetch(uRows, place, 0).xy;
  bool pinned = row.y < 0.0;
  float height = abs(row.y);
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  vColour = vec4(0.0);
  vClass = 0;
  vPath = 0.0;
  vTop = 0.0;
  if (height == 0.0 || pinned != (uScroll.y > 0.5)) return;

  float begin = clamp(uTransform.x + aTimes.x * uTransform.y, -16.0, uCanvas.x + 16.0);
  float end = clamp(uTransform.x + aTimes.y * uTransform.y, -16.0, uCanvas.x + 16.0);
  bool narrow = end - begin < 1.0;
  float left = floor(begin + 0.5);
  float right = max(floor(end + 0.5), left + 1.0);
  float top = row.x - uScroll.x + BAR_INSET * uRatio;
  float bottom = row.x - uScroll.x + height - BAR_INSET * uRatio;
  vec4 colour = colourOf(aStates.x);
  int stateClass = classOf(colour);
  // Lower depths win. Bars are behind all ticks, and sleeping is behind all other bars.
  float depth = stateClass == 0 ? 0.9 : 0.8;

  if (uPass == 1) {
    vec4 worst = colourOf(aStates.y);
    int worstClass = classOf(worst);
    if (worstClass <= stateClass && !(narrow && worstClass > RUNNING)) return;
    top = bottom - TICK_HEIGHT * uRatio;
    colour = worst;
    stateClass = worstClass;
    depth = 0.5 - float(worstClass) * 0.05;
    left = floor(begin);
    right = max(ceil(end), left + 1.0);
    if (!narrow) {
      left = floor(begin + 0.5);
      right = max(floor(end + 0.5), left + 1.0);
    }
  } else {
    vPath = float(aShares.y) / 255.0;
  }
  vColour = vec4(colour.rgb, 1.0);
  vClass = stateClass;
  vTop = top;
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 at = mix(vec2(left, top), vec2(right, bottom), corner);
  gl_Position = vec4(at.x / uCanvas.x * 2.0 - 1.0, 1.0 - at.y / uCanvas.y * 2.0,
                     depth * 2.0 - 1.0, 1.0);
}`;

export const FRAGMENT_SHADER = `#version 300 es
precision highp float;
precision highp int;

flat in vec4 vColour;
flat in int vClass;
flat in float vPath;
flat in float vTop;

uniform vec2 uCanvas;
uniform float uRatio;
uniform vec3 uPathColour;
uniform vec3 uBackground;

out vec4 colour;

const float PATH_HEIGHT = 2.0;
const int UNKNOWN = 6;
const int LOST = 7;

void main() {
  vec2 at = vec2(gl_FragCoord.x, uCanvas.y - gl_FragCoord.y) / uRatio;
  vec3 value = vColour.rgb;
  if (vClass == UNKNOWN) {
    value = mod(at.x + at.y, 6.0) < 2.5 ? value : mix(value, uBackground, 0.72);
  } else if (vClass == LOST) {
    value = mod(at.x - at.y, 8.0) < 4.0 ? vec3(0.0) : value;
  }
  if (vPath > 0.0 && at.y * uRatio < vTop + PATH_HEIGHT * uRatio) {
    value = mix(value, uPathColour, 0.35 + 0.65 * vPath);
  }
  colour = vec4(value, 1.0);
}`;
