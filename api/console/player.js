// Plays speech while it arrives, or a finished file where the browser has no Web Audio. One of them sounds at a time.

const RATE_HZ = 24000;
const LEAD_S = 0.08;
let sounding = null;

/** Whether samples can be played as they come. */
export const canStream = () => "AudioContext" in window && "body" in Response.prototype;

/** What every player is: `position_s`, `duration_s`, `playing`, and `onchange` when one of them jumps. */
class Player {
  onchange = () => {};
  playing = false;

  takeTurn() {
    if (sounding && sounding !== this) sounding.pause();
    sounding = this;
    this.playing = true;
    this.onchange();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }
}

/** Silences whatever sounds. */
export const silence = () => sounding?.pause();

/** 16-bit samples at 24 kHz, heard from the first piece on. */
export class StreamPlayer extends Player {
  constructor() {
    super();
    // The context runs at the rate of the samples: resampling each piece by itself would be heard at its edges.
    this.context = new AudioContext({ sampleRate: RATE_HZ });
    this.pieces = [];
    this.n = 0;
    this.whole = false;
    this.sources = new Set();
    this.from_s = 0;
    this.at = null;
    this.end_at = 0;
    this.odd = new Uint8Array(0);
  }

  get duration_s() {
    return this.n / RATE_HZ;
  }

  get position_s() {
    if (!this.playing || this.at === null) return this.from_s;
    const heard = this.context.currentTime - (this.context.outputLatency || 0) - this.at;
    return Math.min(this.duration_s, this.from_s + Math.max(0, heard));
  }

  /** More samples, little-endian; a byte too many waits for the next. */
  push(data) {
    const joined = new Uint8Array(this.odd.length + data.length);
    joined.set(this.odd);
    joined.set(data, this.odd.length);
    const even = joined.length & ~1;
    this.odd = joined.slice(even);
    if (!even) return;
    const samples = Float32Array.from(new Int16Array(joined.buffer.slice(0, even)), (value) => value / 32768);
    this.pieces.push(samples);
    this.n += samples.length;
    if (this.playing) this.schedule(samples);
    this.onchange();
  }

  /** Says that no more samples come. */
  finish() {
    this.whole = true;
    if (this.playing && !this.sources.size) this.reached();
    this.onchange();
  }

  play() {
    if (this.whole && this.position_s >= this.duration_s - 0.01) this.from_s = 0;
    this.context.resume();
    this.at = null;
    this.takeTurn();
    if (this.n) this.schedule(this.rest());
  }

  pause() {
    this.from_s = this.position_s;
    this.halt();
    this.onchange();
  }

  seek(to_s) {
    const going = this.playing;
    this.halt();
    this.from_s = Math.max(0, Math.min(to_s, this.duration_s));
    if (going) this.play();
    else this.onchange();
  }

  close() {
    this.halt();
    this.context.close();
  }

  schedule(samples) {
    if (!samples.length) return;
    const buffer = this.context.createBuffer(1, samples.length, RATE_HZ);
    buffer.copyToChannel(samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.context.destination);
    const soonest = this.context.currentTime + LEAD_S;
    if (this.at === null || this.end_at < this.context.currentTime) this.begin(soonest, samples.length);
    source.start(this.end_at);
    this.end_at += buffer.duration;
    this.sources.add(source);
    source.onended = () => this.ended(source);
  }

  /** Starts the clock, at first or after the voice was waited for. */
  begin(when, n) {
    this.from_s = this.at === null ? this.from_s : this.duration_s - n / RATE_HZ;
    this.at = this.end_at = when;
  }

  ended(source) {
    this.sources.delete(source);
    if (this.playing && this.whole && !this.sources.size) this.reached();
  }

  reached() {
    this.from_s = this.duration_s;
    this.playing = false;
    this.at = null;
    this.onchange();
  }

  rest() {
    const from = Math.round(this.from_s * RATE_HZ);
    const all = new Float32Array(this.n);
    let offset = 0;
    for (const piece of this.pieces) {
      all.set(piece, offset);
      offset += piece.length;
    }
    return all.subarray(from);
  }

  halt() {
    this.playing = false;
    this.at = null;
    for (const source of this.sources) {
      source.onended = null;
      source.stop();
    }
    this.sources.clear();
  }
}

/** A finished file, played by the browser's own element. */
export class FilePlayer extends Player {
  constructor(blob) {
    super();
    this.url = URL.createObjectURL(blob);
    this.element = new Audio(this.url);
    this.whole = true;
    for (const event of ["pause", "ended"]) {
      this.element.addEventListener(event, () => {
        this.playing = false;
        this.onchange();
      });
    }
    this.element.addEventListener("loadedmetadata", () => this.onchange());
  }

  get duration_s() {
    return Number.isFinite(this.element.duration) ? this.element.duration : 0;
  }

  get position_s() {
    return this.element.currentTime;
  }

  play() {
    this.takeTurn();
    this.element.play().catch(() => this.pause());
  }

  pause() {
    this.element.pause();
  }

  seek(to_s) {
    this.element.currentTime = to_s;
    this.onchange();
  }

  close() {
    this.element.pause();
    URL.revokeObjectURL(this.url);
  }
}

/** Bytes of base64. */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
