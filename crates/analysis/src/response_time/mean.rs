//! The mean response time, as the integral of 1 - F.

use std::cell::Cell;

use super::continuous::ContinuousResponses;

/// This part of the error that is allowed may come from F.
const FROM_F: f64 = 0.02;
/// And this one from what lies beyond the last place.
const FROM_TAIL: f64 = 0.1;
/// A stretch is halved so often at most.
const DEEPEST: u32 = 12;
/// So many times, and so that the ends lie whole numbers of the shortest response apart, it is cut
/// before any two orders are compared: beside a kink they may agree by chance.
const PARTS: u32 = 4;

/// The mean of responses of which none is below `shortest`, and what it may be wrong by: about
/// `within` of it.
pub(super) fn mean(responses: &ContinuousResponses<'_>, shortest: f64, within: f64) -> (f64, f64) {
    let uncertain = Cell::new(0.0_f64);
    let above = |r: f64| {
        let (value, error) = responses.cdf_within(r, FROM_F * within);
        uncertain.set(uncertain.get().max(error));
        1.0 - value
    };
    let (mut sum, mut error) = (shortest, 0.0);
    let mut from = shortest;
    loop {
        // Each stretch is as long as all before it, so that kinks at multiples of the shortest
        // response are met exactly.
        let length = from;
        for part in 0..PARTS {
            let piece = length / f64::from(PARTS);
            let low = from + f64::from(part) * piece;
            let (part, wrong) = adaptive(&above, low, low + piece, within * sum / f64::from(PARTS));
            sum += part;
            error += wrong;
        }
        from += length;
        // Beyond, the tail falls at least as fast as it did over the last stretch.
        let beyond = (above(from) + uncertain.get()) * length * 4.0;
        if beyond < FROM_TAIL * within * sum || above(from) < uncertain.get() {
            error += beyond;
            break;
        }
    }
    (sum, error + uncertain.get() * (from - shortest))
}

/// The integral of `f` by Simpson's rule, halved until two orders agree; with the sum of their
/// differences.
fn adaptive(f: &impl Fn(f64) -> f64, low: f64, high: f64, tolerance: f64) -> (f64, f64) {
    let middle = 0.5 * (low + high);
    let ends = (f(low), f(middle), f(high));
    halved(f, (low, high), ends, tolerance, DEEPEST)
}

fn halved(
    f: &impl Fn(f64) -> f64,
    (low, high): (f64, f64),
    (at_low, at_middle, at_high): (f64, f64, f64),
    tolerance: f64,
    depth: u32,
) -> (f64, f64) {
    let middle = 0.5 * (low + high);
    let (left, right) = (f(0.5 * (low + middle)), f(0.5 * (middle + high)));
    let simpson = |a: f64, b: f64, c: f64, length: f64| (a + 4.0 * b + c) * length / 6.0;
    let whole = simpson(at_low, at_middle, at_high, high - low);
    let first = simpson(at_low, left, at_middle, middle - low);
    let second = simpson(at_middle, right, at_high, high - middle);
    let apart = (first + second - whole).abs();
    if depth == 0 || apart < tolerance {
        return (first + second, apart);
    }
    let a = halved(
        f,
        (low, middle),
        (at_low, left, at_middle),
        tolerance / 2.0,
        depth - 1,
    );
    let b = halved(
        f,
        (middle, high),
        (at_middle, right, at_high),
        tolerance / 2.0,
        depth - 1,
    );
    (a.0 + b.0, a.1 + b.1)
}
