//! probe
#![allow(clippy::unwrap_used, missing_docs)]
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};
fn main() {
    let s = Duration::from_secs_f64_nearest;
    for (r, times, b, p, ps) in [
        (0.4, vec![(0.2, 0.7), (2.0, 0.3)], 1.4, 2.0, true),
        (0.4, vec![(0.2, 0.7), (2.0, 0.3)], 1.4, 2.0, false),
        (0.3, vec![(0.2, 0.7), (2.0, 0.3)], 1.4, 2.0, false),
        (0.4, vec![(1.0, 1.0)], 1.2, 2.0, false),
        (0.57, vec![(1.0, 1.0)], 1.2, 2.0, false),
        (0.4, vec![(1.0, 1.0)], 1.234_567, 2.012, false),
        (0.4, vec![(1.0, 1.0)], 12.0, 20.0, false),
    ] {
        let (budget, period) = (s(b), s(p));
        let q = PoissonQueue {
            rate: Rate::per_second(r).unwrap(),
            execution_times: times.iter().map(|(a, b)| (s(*a), *b)).collect(),
            batches: vec![(1, 1.0)],
            server: if ps {
                ReservationServer::Periodic { budget, period }
            } else {
                ReservationServer::Deferrable { budget, period }
            },
        };
        let t = std::time::Instant::now();
        let f = match q.solve() {
            Ok(f) => f,
            Err(e) => {
                println!("{e}");
                continue;
            }
        };
        let a = t.elapsed();
        let c = f.cdf(s(1.0 + 1e-9));
        let b = t.elapsed();
        let qs: Vec<_> = [0.5, 0.9, 0.99]
            .iter()
            .map(|p| f.quantile(*p).unwrap())
            .collect();
        println!(
            "solve {a:?} cdf {:?} all3 {:?} cdf width {:e} {qs:?}",
            b - a,
            t.elapsed() - b,
            c.upper - c.lower
        );
    }
}
