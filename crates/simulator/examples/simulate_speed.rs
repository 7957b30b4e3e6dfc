//! Prints how many jobs per second the simulator serves, for the tables in bench/results.
//!
//! `cargo run --release -p tailbound-simulator --example simulate_speed`

use std::error::Error;
use std::time::Instant as WallClock;

use tailbound_model::ReservationServer;
use tailbound_simulator::{ServerState, fifo_response_times};
use tailbound_time::{Duration, Instant};

const JOBS: u64 = 20_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let (budget, period) = (Duration::from_micros(2_800), Duration::from_millis(4));
    let servers = [
        (
            "deferrable",
            ReservationServer::Deferrable { budget, period },
        ),
        ("periodic", ReservationServer::Periodic { budget, period }),
        (
            "constant bandwidth",
            ReservationServer::ConstantBandwidth { budget, period },
        ),
        ("dedicated", ReservationServer::Dedicated),
    ];
    for (name, server) in servers {
        // Gaps of 0 to 5 ms in an irregular order, without the cost of drawing them.
        let mut now = 0_u64;
        let jobs = (0..JOBS).map(|index| {
            now += ((index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * 5_000_000) >> 32;
            (Instant::from_nanos(now), Duration::from_millis(1))
        });
        let state = ServerState::new(server, Duration::ZERO)?;
        let begin = WallClock::now();
        let longest = fifo_response_times(state, jobs)
            .max()
            .unwrap_or(Duration::ZERO);
        let per_second = JOBS as f64 / begin.elapsed().as_secs_f64() / 1e6;
        println!("{name:20} {per_second:6.1} million jobs per second (longest response {longest})");
    }
    Ok(())
}
