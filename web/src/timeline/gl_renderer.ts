// Draws tiles with WebGL2. The items of a batch go into a texture once, as the server sent them,
// with a second texture that has the slot of each item's row. A frame then costs a few calls per
// batch and no work per item: rows are positioned by a texture that changes only with the layout.

import {
  FRAGMENT_SHADER,
  GROUP_BIT,
  ITEM_TEXTURE_WIDTH,
  ROW_TEXTURE_WIDTH,
  STATE_TEXTURE_WIDTH,
  VERTEX_SHADER,
} from './gl_shaders.ts';
import type { Palette, StateLook } from './palette.ts';
import type { Pane, Renderer, RowSlots, TileTransform } from './renderer.ts';
import { hasPackets, type Layout } from './row_tree.ts';
import type { Batch } from './tile_cache.ts';
import { ITEM_BYTES, type ItemRange } from './tiles.ts';

/** Bytes that may be uploaded in one frame, apart from the first batch of the frame. */
const UPLOAD_LIMIT_BYTES = 1_000_000;

/** Values of uPass in the shader. */
const BARS = 0;
const TICKS = 1;
/** Kinds of rows in the shader, apart from rows of states. */
const VALUES = 1;
const PACKETS = 2;
/** Of the two triangles of an item. */
const VERTICES = 6;

interface Uploaded {
  items: WebGLTexture;
  slots: WebGLTexture;
}

type UniformName =
  | 'uCanvas'
  | 'uTransform'
  | 'uScroll'
  | 'uRatio'
  | 'uPass'
  | 'uRows'
  | 'uStates'
  | 'uItems'
  | 'uSlots'
  | 'uPathColour'
  | 'uBackground'
  | 'uValueColour';

const UNIFORM_NAMES: readonly UniformName[] = [
  'uCanvas',
  'uTransform',
  'uScroll',
  'uRatio',
  'uPass',
  'uRows',
  'uStates',
  'uItems',
  'uSlots',
  'uPathColour',
  'uBackground',
  'uValueColour',
];

export class GlRenderer implements Renderer {
  private readonly gl: WebGL2RenderingContext;
  private readonly program: WebGLProgram;
  private readonly uniforms: Record<UniformName, WebGLUniformLocation | null>;
  private readonly rowTexture: WebGLTexture;
  private readonly stateTexture: WebGLTexture;
  private readonly uploaded = new Map<Batch, Uploaded>();
  private readonly slots: RowSlots;
  private width = 1;
  private height = 1;
  private ratio = 1;
  private uploadedBytes = 0;

  private constructor(gl: WebGL2RenderingContext, slots: RowSlots) {
    this.gl = gl;
    this.slots = slots;
    this.program = link(gl);
    this.uniforms = Object.fromEntries(
      UNIFORM_NAMES.map((name) => [name, gl.getUniformLocation(this.program, name)]),
    ) as Record<UniformName, WebGLUniformLocation | null>;
    this.rowTexture = nearestTexture(gl);
    this.stateTexture = nearestTexture(gl);
    gl.useProgram(this.program);
    gl.uniform1i(this.uniforms.uRows, 0);
    gl.uniform1i(this.uniforms.uStates, 1);
    gl.uniform1i(this.uniforms.uItems, 2);
    gl.uniform1i(this.uniforms.uSlots, 3);
    gl.depthFunc(gl.LEQUAL);
  }

  /** Null if the browser has no WebGL2. */
  static create(canvas: HTMLCanvasElement, slots: RowSlots): GlRenderer | null {
    const gl = canvas.getContext('webgl2', { alpha: false, antialias: false, depth: true });
    return gl ? new GlRenderer(gl, slots) : null;
  }

  resize(width: number, height: number, ratio: number): void {
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.gl.viewport(0, 0, width, height);
    this.gl.uniform2f(this.uniforms.uCanvas, width, height);
    this.gl.uniform1f(this.uniforms.uRatio, ratio);
  }

  setStates(looks: readonly StateLook[], palette: Palette): void {
    const { gl } = this;
    const rows = Math.max(1, Math.ceil(looks.length / STATE_TEXTURE_WIDTH));
    const texels = new Uint8Array(rows * STATE_TEXTURE_WIDTH * 4);
    looks.forEach((look, i) => {
      texels.set(look.colour, 4 * i);
      texels[4 * i + 3] = look.classIndex;
    });
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.stateTexture);
    gl.texImage2D(
      gl.TEXTURE_2D, 0, gl.RGBA8, STATE_TEXTURE_WIDTH, rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, texels,
    );
    gl.uniform3fv(this.uniforms.uPathColour, palette.path.map((part) => part / 255));
    gl.uniform3fv(this.uniforms.uBackground, palette.background.map((part) => part / 255));
    gl.uniform3fv(this.uniforms.uValueColour, palette.value.map((part) => part / 255));
  }

  setLayout(layout: Layout): void {
    const { gl } = this;
    for (const entry of layout.byIndex.values()) this.slots.of(entry.row.id);
    const rows = Math.max(1, Math.ceil(this.slots.count / ROW_TEXTURE_WIDTH));
    const texels = new Float32Array(rows * ROW_TEXTURE_WIDTH * 3);
    for (const entry of layout.byIndex.values()) {
      const slot = this.slots.of(entry.row.id);
      texels[3 * slot] = entry.top * this.ratio;
      // A negative height marks a pinned row.
      texels[3 * slot + 1] = (entry.pinned ? -entry.height : entry.height) * this.ratio;
      texels[3 * slot + 2] = entry.row.values ? VALUES : hasPackets(entry.row) ? PACKETS : 0;
    }
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.rowTexture);
    gl.texImage2D(
      gl.TEXTURE_2D, 0, gl.RGB32F, ROW_TEXTURE_WIDTH, rows, 0, gl.RGB, gl.FLOAT, texels,
    );
  }

  begin(): void {
    const { gl } = this;
    this.uploadedBytes = 0;
    gl.disable(gl.SCISSOR_TEST);
    gl.clearColor(0, 0, 0, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  }

  /** A clear of a part of the canvas: backgrounds and grid lines need no shader. */
  fill(x: number, y: number, width: number, height: number, colour: readonly number[]): void {
    const { gl } = this;
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(
      Math.round(x), Math.round(this.height - y - height), Math.round(width), Math.round(height),
    );
    gl.clearColor(colour[0] / 255, colour[1] / 255, colour[2] / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
  }

  beginPane(pane: Pane): void {
    const { gl } = this;
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(
      0,
      Math.max(0, Math.round(this.height - pane.top - pane.height)),
      this.width,
      Math.max(0, Math.round(pane.height)),
    );
    gl.uniform2f(this.uniforms.uScroll, pane.scroll - pane.top, pane.pinned ? 1 : 0);
    gl.enable(gl.DEPTH_TEST);
    gl.clear(gl.DEPTH_BUFFER_BIT);
  }

  draw(batch: Batch, ranges: readonly ItemRange[], transform: TileTransform): boolean {
    const { gl, uniforms } = this;
    if (ranges.length === 0) return true;
    const uploaded = this.uploaded.get(batch) ?? this.upload(batch);
    if (!uploaded) return false;
    gl.activeTexture(gl.TEXTURE2);
    gl.bindTexture(gl.TEXTURE_2D, uploaded.items);
    gl.activeTexture(gl.TEXTURE3);
    gl.bindTexture(gl.TEXTURE_2D, uploaded.slots);
    gl.uniform2f(uniforms.uTransform, transform.offset, transform.scale);
    gl.uniform1i(uniforms.uPass, BARS);
    this.drawRanges(ranges);
    if (batch.ticks) {
      gl.uniform1i(uniforms.uPass, TICKS);
      this.drawRanges(ranges);
    }
    return true;
  }

  endLevel(): void {
    this.gl.clear(this.gl.DEPTH_BUFFER_BIT);
  }

  end(): void {
    this.gl.disable(this.gl.DEPTH_TEST);
  }

  forget(batch: Batch): void {
    const uploaded = this.uploaded.get(batch);
    if (!uploaded) return;
    this.uploaded.delete(batch);
    this.gl.deleteTexture(uploaded.items);
    this.gl.deleteTexture(uploaded.slots);
  }

  dispose(): void {
    for (const batch of [...this.uploaded.keys()]) this.forget(batch);
    this.gl.deleteTexture(this.rowTexture);
    this.gl.deleteTexture(this.stateTexture);
    this.gl.deleteProgram(this.program);
  }

  /** Draws adjacent ranges with one call. */
  private drawRanges(ranges: readonly ItemRange[]): void {
    let { first, count } = ranges[0];
    for (const range of ranges.slice(1)) {
      if (range.first === first + count) {
        count += range.count;
        continue;
      }
      this.gl.drawArrays(this.gl.TRIANGLES, VERTICES * first, VERTICES * count);
      ({ first, count } = range);
    }
    this.gl.drawArrays(this.gl.TRIANGLES, VERTICES * first, VERTICES * count);
  }

  /** Copies a batch to the GPU; null if this frame has uploaded enough. */
  private upload(batch: Batch): Uploaded | null {
    const { gl } = this;
    const { decoded } = batch;
    const bytes = decoded.itemCount * (ITEM_BYTES + 4);
    if (this.uploadedBytes > 0 && this.uploadedBytes + bytes > UPLOAD_LIMIT_BYTES) return null;
    this.uploadedBytes += bytes;
    const slots = new Uint32Array(decoded.itemCount);
    for (const items of decoded.rows) {
      const slot = this.slots.of(items.row) + (items.group ? GROUP_BIT : 0);
      slots.fill(slot, items.first, items.first + items.count);
    }
    const uploaded = {
      items: this.itemTexture(gl.RGBA32UI, gl.RGBA_INTEGER, 4, decoded.texels),
      slots: this.itemTexture(gl.R32UI, gl.RED_INTEGER, 1, slots),
    };
    this.uploaded.set(batch, uploaded);
    return uploaded;
  }

  /** A texture with one texel per item: full rows first, then the rest of the last one. */
  private itemTexture(
    internalFormat: number,
    format: number,
    channels: number,
    data: Uint32Array,
  ): WebGLTexture {
    const { gl } = this;
    const count = data.length / channels;
    const full = Math.floor(count / ITEM_TEXTURE_WIDTH);
    const rest = count - full * ITEM_TEXTURE_WIDTH;
    gl.activeTexture(gl.TEXTURE2);
    const texture = nearestTexture(gl);
    gl.texStorage2D(
      gl.TEXTURE_2D, 1, internalFormat, ITEM_TEXTURE_WIDTH, full + (rest > 0 ? 1 : 0),
    );
    const type = gl.UNSIGNED_INT;
    if (full > 0) {
      gl.texSubImage2D(
        gl.TEXTURE_2D, 0, 0, 0, ITEM_TEXTURE_WIDTH, full, format, type, data, 0,
      );
    }
    if (rest > 0) {
      const begin = full * ITEM_TEXTURE_WIDTH * channels;
      gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, full, rest, 1, format, type, data, begin);
    }
    return texture;
  }
}

function nearestTexture(gl: WebGL2RenderingContext): WebGLTexture {
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
  return texture;
}

function link(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram();
  for (const [kind, source] of [
    [gl.VERTEX_SHADER, VERTEX_SHADER],
    [gl.FRAGMENT_SHADER, FRAGMENT_SHADER],
  ] as const) {
    const shader = gl.createShader(kind)!;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
    gl.deleteShader(shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) {
    throw new Error(`A shader does not compile: ${gl.getProgramInfoLog(program)}`);
  }
  return program;
}
