// A drawing becomes what scikit-learn's digits are: 32 x 32 pixels, black or white, counted in blocks of 4 x 4.
const FINE = 32, BLOCK = 4;
export const SIDE = FINE / BLOCK;
// Those digits fill the height, keep their proportions, and have much the same ink, 313 pixels on average:
// whatever was drawn thin or small has been made as thick and as tall as the others.
const WIDEST = 24, INK = 313, THINNEST = 1.2, THICKEST = 4.8;

// The middles of a line's pieces: takes the tremor out of a hand, and the steps out of arrow keys.
export function smoothed(points) {
  if (points.length < 3) return points;
  const middles = points.slice(1).map((p, k) => ({ x: (p.x + points[k].x) / 2, y: (p.y + points[k].y) / 2 }));
  return [points[0], ...middles, points[points.length - 1]];
}

// Points that lie closer than a quarter of a pixel say nothing new.
function thinned(points, least) {
  const kept = [points[0]];
  for (const p of points) {
    const last = kept[kept.length - 1];
    if (Math.hypot(p.x - last.x, p.y - last.y) >= least) kept.push(p);
  }
  return kept;
}

function box(points) {
  const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
  const left = Math.min(...xs), right = Math.max(...xs), top = Math.min(...ys), bottom = Math.max(...ys);
  return { width: right - left, height: bottom - top, x: (left + right) / 2, y: (top + bottom) / 2 };
}

// The lines, moved to the middle and as large as a pen of that radius allows.
function fitted(lines, radius) {
  const { width, height, x, y } = box(lines.flat());
  const scale = Math.min((FINE - 2 * radius) / height, (WIDEST - 2 * radius) / width);
  const by = Number.isFinite(scale) ? scale : 1;
  return lines.map((line) => line.map((p) => ({ x: FINE / 2 + by * (p.x - x), y: FINE / 2 + by * (p.y - y) })));
}

function markPiece(bitmap, a, b, radius) {
  const dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const first = (u, v) => Math.max(0, Math.floor(Math.min(u, v) - radius));
  const last = (u, v) => Math.min(FINE - 1, Math.ceil(Math.max(u, v) + radius));
  for (let row = first(a.y, b.y); row <= last(a.y, b.y); row++) {
    for (let column = first(a.x, b.x); column <= last(a.x, b.x); column++) {
      const px = column + 0.5 - a.x, py = row + 0.5 - a.y;
      const along = length ? Math.max(0, Math.min(1, (px * dx + py * dy) / length)) : 0;
      if (Math.hypot(px - along * dx, py - along * dy) <= radius) bitmap[row * FINE + column] = 1;
    }
  }
}

function bitmapOf(lines, radius) {
  const bitmap = new Uint8Array(FINE * FINE);
  for (const line of fitted(lines, radius)) line.forEach((p, k) => markPiece(bitmap, line[Math.max(0, k - 1)], p, radius));
  return bitmap;
}

// The pen with which the drawing has as much ink as the data's digits.
function bestBitmap(lines) {
  let thin = THINNEST, thick = THICKEST, bitmap = null;
  for (let k = 0; k < 7; k++) {
    const radius = (thin + thick) / 2;
    bitmap = bitmapOf(lines, radius);
    const ink = bitmap.reduce((sum, pixel) => sum + pixel, 0);
    if (ink < INK) thin = radius; else thick = radius;
  }
  return bitmap;
}

// Strokes (lists of points, in any unit) to 64 counts from 0 to 16; null where nothing was drawn.
export function picture(strokes) {
  const drawn = strokes.filter((stroke) => stroke.length);
  if (!drawn.length) return null;
  const { width, height } = box(drawn.flat()), least = Math.max(width, height) / (4 * FINE);
  const bitmap = bestBitmap(drawn.map((stroke) => smoothed(thinned(stroke, least))));
  const counts = new Array(SIDE * SIDE).fill(0);
  bitmap.forEach((pixel, k) => {
    counts[Math.floor(k / FINE / BLOCK) * SIDE + Math.floor((k % FINE) / BLOCK)] += pixel;
  });
  return counts;
}
