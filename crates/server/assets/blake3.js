// BLAKE3, so that the page itself can tell that what it shows is what a yes is bound to.

const IV = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
const ROOT = 8;
const CHUNK = 1024;

// Which word of the message is taken when, for all seven rounds.
const SCHEDULE = [];
for (let round = 0, words = ORDER.map((_, place) => place); round < 7; round += 1) {
  SCHEDULE.push(...words);
  words = ORDER.map((place) => words[place]);
}

const state = new Uint32Array(16);

function mix(a, b, c, d, x, y) {
  state[a] = state[a] + state[b] + x;
  let word = state[d] ^ state[a];
  state[d] = (word >>> 16) | (word << 16);
  state[c] = state[c] + state[d];
  word = state[b] ^ state[c];
  state[b] = (word >>> 12) | (word << 20);
  state[a] = state[a] + state[b] + y;
  word = state[d] ^ state[a];
  state[d] = (word >>> 8) | (word << 24);
  state[c] = state[c] + state[d];
  word = state[b] ^ state[c];
  state[b] = (word >>> 7) | (word << 25);
}

function compress(chaining, block, counter, length, flags) {
  state.set(chaining);
  state.set(IV.slice(0, 4), 8);
  state[12] = counter;
  state[13] = Math.floor(counter / 0x100000000);
  state[14] = length;
  state[15] = flags;
  for (let at = 0; at < SCHEDULE.length; at += 16) {
    const word = (place) => block[SCHEDULE[at + place]];
    mix(0, 4, 8, 12, word(0), word(1));
    mix(1, 5, 9, 13, word(2), word(3));
    mix(2, 6, 10, 14, word(4), word(5));
    mix(3, 7, 11, 15, word(6), word(7));
    mix(0, 5, 10, 15, word(8), word(9));
    mix(1, 6, 11, 12, word(10), word(11));
    mix(2, 7, 8, 13, word(12), word(13));
    mix(3, 4, 9, 14, word(14), word(15));
  }
  const out = new Uint32Array(8);
  for (let place = 0; place < 8; place += 1) out[place] = state[place] ^ state[place + 8];
  return out;
}

function blockOf(input, from, to) {
  const padded = new Uint8Array(64);
  padded.set(input.subarray(from, to));
  const view = new DataView(padded.buffer);
  return Uint32Array.from({ length: 16 }, (_, place) => view.getUint32(place * 4, true));
}

function chunk(input, from, to, counter, flags) {
  let chaining = Uint32Array.from(IV);
  const last = Math.max(1, Math.ceil((to - from) / 64)) - 1;
  for (let place = 0; place <= last; place += 1) {
    const start = from + place * 64;
    const end = Math.min(start + 64, to);
    const here = (place === 0 ? CHUNK_START : 0) | (place === last ? CHUNK_END | flags : 0);
    chaining = compress(chaining, blockOf(input, start, end), counter, end - start, here);
  }
  return chaining;
}

/** The chaining value of a part of the input; the left side of a tree is the largest power of two of chunks that leaves some. */
function subtree(input, from, to, counter, flags) {
  const chunks = Math.ceil((to - from) / CHUNK);
  if (chunks <= 1) return chunk(input, from, to, counter, flags);
  let left = 1;
  while (left * 2 < chunks) left *= 2;
  const middle = from + left * CHUNK;
  const block = new Uint32Array(16);
  block.set(subtree(input, from, middle, counter, 0));
  block.set(subtree(input, middle, to, counter + left, 0), 8);
  return compress(Uint32Array.from(IV), block, 0, 64, PARENT | flags);
}

/** The digest of some bytes, in hexadecimal digits. */
export function blake3(input) {
  const words = subtree(input, 0, input.length, 0, ROOT);
  const view = new DataView(new ArrayBuffer(32));
  words.forEach((word, place) => view.setUint32(place * 4, word, true));
  return [...new Uint8Array(view.buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
