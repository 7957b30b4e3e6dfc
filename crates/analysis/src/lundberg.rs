//! Lundberg's exponent, which the three solvers of M/G/1 go by.

/// The largest theta that was found with `jobs` (E e^(theta size) - 1) <= theta, up to about `most`: of work served at
/// the constant rate of one in the time in which so many `jobs` come, more than z waits with at most e^(-theta z)
/// probability. `moment` is the mean of e^(theta size), and `first` where the search begins.
pub(crate) fn decay(jobs: f64, moment: impl Fn(f64) -> f64, (first, most): (f64, f64)) -> f64 {
    let holds = |theta: f64| jobs * (moment(theta) - 1.0) <= theta;
    let (mut low, mut high) = (0.0, first);
    while holds(high) && high < most {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        match holds(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}
