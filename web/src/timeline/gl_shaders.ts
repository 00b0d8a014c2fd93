// The shaders that draw the items of tiles. The items of a batch are the texels of a texture, 16
// bytes each, as the server sent them; the vertex shader reads the item of its rectangle. (One
// instance per item would be the obvious way, but software renderers, which many virtual machines
// have, take microseconds for each instance.)
//
// Each batch is drawn twice. The first pass draws bars in the colour of the dominant state. The
// second one draws ticks at the bottom of those bars that hide something more serious, in the
// colour of the worst state; the depth test lets the most serious tick of a pixel win, so a
// microsecond of waiting is visible in a view of an hour. The depth test also keeps sleeping from
// covering what happened in the same pixel.
//
// Rows with values have the least and the greatest value of an item in the places of its states.
// They are drawn as an area up to the least value, and a line or a band from there to the greatest.

/** Width of the texture with the positions of rows. */
export const ROW_TEXTURE_WIDTH = 1024;
/** Width of the texture with the colours of states. */
export const STATE_TEXTURE_WIDTH = 256;
/** Bit of an item's slot: its row is a group. */
export const GROUP_BIT = 0x80000000;
/** Width of the textures with the items of a batch. */
export const ITEM_TEXTURE_WIDTH = 1024;

export const VERTEX_SHADER = `#version 300 es
precision highp float;
precision highp int;

uniform vec2 uCanvas;    // width and height of the canvas
uniform vec2 uTransform; // offset, and pixels per bin
uniform vec2 uScroll;    // offset of the rows; 1 for pinned rows
uniform float uRatio;    // device pixels per CSS pixel
uniform int uPass;       // 0: bars, 1: ticks
uniform highp sampler2D uRows;
uniform highp sampler2D uStates;
uniform highp usampler2D uItems; // begin and end as floats; states; count, busy and path
uniform vec3 uValueColour;
uniform highp usampler2D uSlots; // for each item, the slot of its row

flat out vec4 vColour;
flat out int vClass;
flat out float vPath;
flat out float vTop;
flat out float vBand; // in rows with values, where the band ends; otherwise negative

const float BAR_INSET = 2.0;
const float TICK_HEIGHT = 5.0;
const float TICK_WIDTH = 2.0;
const float STRIP_FROM = 6.0;
const float VALUE_LINE = 1.5;
const int RUNNING = 1;
const int UNKNOWN = 6;

vec4 colourOf(uint state) {
  int i = int(state);
  return texelFetch(uStates, ivec2(i % ${STATE_TEXTURE_WIDTH}, i / ${STATE_TEXTURE_WIDTH}), 0);
}

int classOf(vec4 colour) { return int(colour.a * 255.0 + 0.5); }

void main() {
  // Two triangles for each item: corners 0 1 2 and 2 1 3.
  int vertex = gl_VertexID % 6;
  int corner = vertex < 3 ? vertex : (vertex == 3 ? 2 : vertex == 4 ? 1 : 3);
  int index = gl_VertexID / 6;
  ivec2 texel = ivec2(index % ${ITEM_TEXTURE_WIDTH}, index / ${ITEM_TEXTURE_WIDTH});
  uint found = texelFetch(uSlots, texel, 0).x;
  bool group = (found & ${GROUP_BIT}u) != 0u;
  int slot = int(found & ~${GROUP_BIT}u);
  ivec2 place = ivec2(slot % ${ROW_TEXTURE_WIDTH}, slot / ${ROW_TEXTURE_WIDTH});
  vec3 row = texelFetch(uRows, place, 0).xyz;
  bool values = row.z > 0.5 && row.z < 1.5;
  bool packets = row.z > 1.5;
  bool pinned = row.y < 0.0;
  float height = abs(row.y);
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  vColour = vec4(0.0);
  vClass = 0;
  vPath = 0.0;
  vTop = 0.0;
  vBand = -1.0;
  if (height == 0.0 || pinned != (uScroll.y > 0.5)) return;

  uvec4 item = texelFetch(uItems, texel, 0);
  vec2 times = uTransform.x + uintBitsToFloat(item.xy) * uTransform.y;
  float begin = clamp(times.x, -16.0, uCanvas.x + 16.0);
  float end = clamp(times.y, -16.0, uCanvas.x + 16.0);
  bool narrow = end - begin < 1.0;
  float left = floor(begin + 0.5);
  float right = max(floor(end + 0.5), left + 1.0);
  float top = row.x - uScroll.x + BAR_INSET * uRatio;
  float bottom = row.x - uScroll.x + height - BAR_INSET * uRatio;
  vec4 colour = colourOf(item.z & 0xffffu);
  int stateClass = classOf(colour);
  // Lower depths win. Bars are behind all ticks, and sleeping is behind all other bars.
  float depth = stateClass == 0 ? 0.9 : 0.8;
  // Usual packets have the class of sleeping, and a colour of their own.
  if (packets && stateClass == 0) colour.rgb = uValueColour;

  if (values) {
    if (uPass == 1) return;
    float least = float(item.z & 0xffffu) / 65535.0;
    float greatest = float(item.z >> 16) / 65535.0;
    // The highest of the values in one pixel wins.
    depth = 0.8 - 0.2 * greatest;
    colour = vec4(uValueColour, 0.0);
    stateClass = RUNNING;
    float line = VALUE_LINE * uRatio;
    float space = bottom - top - line;
    vBand = bottom - least * space;
    top = bottom - greatest * space - line;
  } else if (uPass == 1) {
    vec4 worst = colourOf(item.z >> 16);
    int worstClass = classOf(worst);
    // Some thread of a group always waits; what is missing is worth a tick.
    if (group && worstClass < UNKNOWN) return;
    if (worstClass <= stateClass && !(narrow && worstClass > RUNNING)) return;
    top = bottom - TICK_HEIGHT * uRatio;
    colour = worst;
    stateClass = worstClass;
    depth = 0.5 - float(worstClass) * 0.05;
    // A single pixel would be overlooked.
    if (narrow) right = left + floor(TICK_WIDTH * uRatio + 0.5);
  } else {
    vPath = float(item.w >> 24) / 255.0;
    if (group) {
      // The bar of a group is as high as the group is busy.
      float busy = float((item.w >> 16) & 255u) / 255.0;
      if (busy == 0.0) return;
      top = bottom - max(floor((bottom - top) * busy + 0.5), uRatio);
      // The strip would be all that is seen of a low bar.
      if (bottom - top < STRIP_FROM * uRatio) vPath = 0.0;
    }
  }
  vColour = vec4(colour.rgb, 1.0);
  vClass = stateClass;
  vTop = top;
  vec2 at = vec2((corner & 1) == 0 ? left : right, corner < 2 ? top : bottom);
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
flat in float vBand;

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
  if (vBand >= 0.0 && at.y * uRatio > vBand) value = mix(value, uBackground, 0.6);
  if (vPath > 0.0 && at.y * uRatio < vTop + PATH_HEIGHT * uRatio) {
    value = mix(value, uPathColour, 0.35 + 0.65 * vPath);
  }
  colour = vec4(value, 1.0);
}`;
