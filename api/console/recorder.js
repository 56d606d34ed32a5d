// The microphone: what it hears as a file, how loud it is, and why it may be out of reach.

const TYPES = ["audio/webm;codecs=opus", "audio/mp4", "audio/ogg;codecs=opus"];
const QUIET_DB = -45;
const LOUD_DB = -3;
// A voice should reach the encoder as it is, not as a telephone would clean it.
const UNTOUCHED = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };

/** Why nothing can be recorded here, in words; empty where it can. */
export function obstacle() {
  if (!window.isSecureContext) {
    return `Browsers give the microphone only to pages from https, or from this very machine. This page came by plain http from ${location.hostname}. Open it by https, or as http://localhost on the server itself. Files can be chosen all the same.`;
  }
  if (!navigator.mediaDevices?.getUserMedia || !("MediaRecorder" in window)) {
    return "This browser cannot record. Choose a file instead.";
  }
  return "";
}

/** One recording. `onlevel` hears of the level in dBFS and of the seconds so far, about fifteen times a second. */
export class Recorder {
  constructor(onlevel) {
    this.onlevel = onlevel;
    this.chunks = [];
  }

  /** Raises an Error whose words say what to do. */
  async start() {
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ audio: UNTOUCHED });
    } catch (error) {
      throw new Error(refused(error));
    }
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    this.recorder = new MediaRecorder(this.stream, { mimeType, audioBitsPerSecond: 128000 });
    this.recorder.ondataavailable = (event) => this.chunks.push(event.data);
    this.recorder.start(250);
    this.started = performance.now();
    this.listen();
  }

  listen() {
    this.context = new AudioContext();
    const analyser = this.context.createAnalyser();
    analyser.fftSize = 2048;
    this.context.createMediaStreamSource(this.stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    this.timer = setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      const power = samples.reduce((sum, value) => sum + value * value, 0) / samples.length;
      this.onlevel(10 * Math.log10(power + 1e-12), this.seconds);
    }, 66);
  }

  get seconds() {
    return (performance.now() - this.started) / 1000;
  }

  /** The recording; the microphone is let go. */
  async stop() {
    const type = this.recorder.mimeType.split(";")[0];
    const ended = new Promise((resolve) => (this.recorder.onstop = resolve));
    if (this.recorder.state !== "inactive") this.recorder.stop();
    else this.recorder.onstop();
    await ended;
    this.release();
    return new Blob(this.chunks, { type });
  }

  release() {
    clearInterval(this.timer);
    this.context?.close();
    this.stream?.getTracks().forEach((track) => track.stop());
  }
}

/** What a level means to the person who speaks. */
export function levelWords(level_db) {
  if (level_db < QUIET_DB) return "quiet";
  return level_db > LOUD_DB ? "too loud" : "good";
}

function refused(error) {
  const words = {
    NotAllowedError:
      "The microphone is not allowed for this page. Allow it in the browser's address bar, or choose a file.",
    NotFoundError: "No microphone was found. Connect one, or choose a file.",
    NotReadableError: "The microphone is in use by another program. Close that one, or choose a file.",
  };
  return words[error.name] ?? `The microphone cannot be opened (${error.name}). Choose a file instead.`;
}
