//! Adaptive campaigns over a simulated service on a reservation, against the full factorial.

use std::path::Path;

use tailbound_sampling::SampleGrid;
use tailbound_sweep::{Sweep, SweepQuery};
use tailbound_time::Duration;

use crate::sampled_application::{
    Application, LESS, adaptive, factorial, grid, is_as_good, shares,
};

/// A service on a reservation, simulated.
struct SimulatedService {
    rate_per_second: u32,
    limit_seconds: f64,
}

impl Application for SimulatedService {
    fn quantile(&self, grid: &SampleGrid, point: usize, measurement: u64) -> f64 {
        let period = grid.period(point).unwrap();
        let share = grid.share(point).unwrap() / 100.0;
        let budget = Duration::from_secs_f64_nearest(period.as_secs_f64() * share);
        let text = format!(
            r#"
            schema_version = 1
            name = "simulated"
            seed = {}
            hosts.here.cpus = [0]
            [domains.service]
            kind = "process"
            builtin = "synthetic-service"
            reservation = {{ budget = "{budget}", period = "{period}", cpus = [0] }}
            [services.synthetic]
            domain = "service"
            protocol = "synthetic"
            endpoint = "unix:s.sock"
            [services.synthetic.tasks.work]
            arrivals = {{ kind = "poisson", rate = "{}/s" }}
            execution_time = {{ kind = "uniform", min = "2ms", max = "8ms" }}
            "#,
            measurement % 1_000_000,
            self.rate_per_second,
        );
        let query = SweepQuery {
            axes: Vec::new(),
            seeds: 1,
            duration: Duration::from_secs(40),
            warm_up: Duration::from_secs(1),
            mode: None,
            variant: None,
        };
        let sweep = Sweep::plan(&text, "simulated.toml", Path::new("."), query).unwrap();
        let header = sweep.header();
        let column = header
            .trim_end()
            .split(',')
            .position(|name| name == "p99_ns")
            .unwrap();
        let rows = sweep.rows(0).unwrap();
        let cells = rows.lines().map(|line| line.split(',').nth(column));
        let ns = cells.flatten().find_map(|cell| cell.parse::<f64>().ok());
        ns.map_or(40.0, |ns| ns / 1e9)
    }

    fn limit(&self) -> f64 {
        self.limit_seconds
    }

    fn half_width(&self) -> f64 {
        0.03
    }
}

#[test]
fn an_eighth_of_the_points_suffices_for_a_simulated_service() {
    let grid = grid(&["share=20..90/5", "period=10ms..120ms/10ms"]);
    let most = grid.len() / LESS;
    for (seed, rate_per_second, limit_seconds) in
        [(1, 40, 0.08), (2, 60, 0.15), (3, 80, 0.06), (4, 50, 0.25)]
    {
        let application = SimulatedService {
            rate_per_second,
            limit_seconds,
        };
        let best = factorial(&application, &grid, seed);
        let (records, _) = adaptive(&application, &grid, seed, most);
        let own = shares(&grid, &records);
        eprintln!(
            "{own:?} for {best:?} by {} of {}",
            records.len(),
            grid.len()
        );
        assert!(is_as_good(&own, &best), "{own:?} for {best:?}");
    }
}
