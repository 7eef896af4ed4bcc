// Exact arithmetic of epsilons, which are numbers whose texts are not below them. They are added and rounded
// as texts, in units of 10 ** -40.

const PLACES = 40;
const UNIT = 10n ** BigInt(PLACES);

/** Divide and round up. */
const dividedUp = (dividend, divisor) =>
  dividend > 0n ? (dividend + divisor - 1n) / divisor : dividend / divisor;

/** Return the units of an epsilon as it is written, rounded up. */
function unitsOf(epsilon) {
  const [, sign, digits, more = "", power = 0] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(`${epsilon}`);
  const shift = PLACES + Number(power) - more.length;
  const all = BigInt(sign + digits + more);
  return shift < 0 ? dividedUp(all, 10n ** BigInt(-shift)) : all * 10n ** BigInt(shift);
}

/** Return the least number above 0 whose text is not below this many units. */
function numberOf(units) {
  const found = new Float64Array([Number(`${units}e-${PLACES}`)]);
  const bits = new BigUint64Array(found.buffer);
  while (unitsOf(found[0]) < units) bits[0] += 1n;
  return found[0];
}

/** Return ln(dividend / divisor) in units, below the exact value by less than `ERROR`. */
function logOf(dividend, divisor) {
  let halved = 0n;
  let half = divisor;
  while (dividend >= 2n * half) {
    half *= 2n;
    halved += 1n;
  }
  return halved * doubleArtanh(1n, 3n) + doubleArtanh(dividend - half, dividend + half);
}

const ERROR = 10n ** 10n;

/** Return 2 artanh(dividend / divisor) in units, rounded down. */
function doubleArtanh(dividend, divisor) {
  let all = 0n;
  let power = (UNIT * dividend) / divisor;
  for (let odd = 1n, square = (power * power) / UNIT; power; odd += 2n, power = (power * square) / UNIT)
    all += power / odd;
  return 2n * all;
}

/** Return an epsilon: so many times ln(dividend / divisor), rounded up. */
export const epsilonOf = (dividend, divisor, times = 1n) =>
  numberOf(times * (logOf(dividend, divisor) + ERROR));

/** Add epsilons as they are written; the sum is rounded up. */
export const add = (...epsilons) =>
  epsilons.includes(Infinity) ? Infinity : numberOf(epsilons.reduce((all, each) => all + unitsOf(each), 0n));

/** Round a number up, as it is written, to so many decimals. */
export const roundedUp = (value, digits) =>
  Number.isFinite(value)
    ? Number(`${dividedUp(unitsOf(value), 10n ** BigInt(PLACES - digits))}e-${digits}`)
    : value;

/** Tell whether an epsilon is at most ln(dividend / divisor), for whole numbers. */
export const isWithinOdds = (epsilon, dividend, divisor) =>
  Number.isFinite(epsilon) && unitsOf(epsilon) <= logOf(BigInt(dividend), BigInt(divisor));

/**
 * Return how many times in 100 a guess is right at most, if it was right 50 times before; 100 stands for near
 * certainty.
 *
 * Rounded up: to whole numbers, above 99 to one decimal.
 */
export const raised = (epsilon) =>
  (CHANCES.find((tenths) => isWithinOdds(epsilon, tenths, 1000 - tenths)) ?? 1000) / 10;

const CHANCES = [...Array(50).keys()]
  .map((step) => 500 + 10 * step)
  .concat([...Array(9).keys()].map((step) => 991 + step));

/** Return what floating point may have rounded off. */
export const lifted = (epsilon) => epsilon + slack(epsilon) / 10;

/** What stated and exact epsilons may differ by: both are doubles. */
export const slack = (epsilon) => 1e-9 * Math.max(1, epsilon);

/** Tell whether an epsilon is within a limit, up to the last digits. */
export const within = (epsilon, limit) => epsilon <= limit + slack(limit);

/** Write four decimals, rounded up. */
export const shown = (epsilon) => roundedUp(epsilon, 4).toFixed(4);
