//! The settings of `golden/response_times.toml`, and what the analysis says of them.

use serde::Deserialize;
use tailbound_analysis::response_time::{PoissonQueue, QueueResponses};
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

#[derive(Deserialize)]
struct Golden {
    setting: Vec<Setting>,
}

#[derive(Deserialize)]
pub struct Setting {
    pub name: String,
    pub rate_per_s: f64,
    pub execution_times: Vec<(Duration, f64)>,
    pub batches: Vec<(u32, f64)>,
    pub server: Server,
    /// How far apart the bounds of a quantile may be, relative.
    pub apart: f64,
    pub cdf: Vec<Share>,
    pub quantiles_s: Vec<Quantile>,
    pub mean_s: Expected,
}

#[derive(Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Server {
    Dedicated,
    Deferrable { budget: Duration, period: Duration },
    Periodic { budget: Duration, period: Duration },
}

/// What an oracle says, and by how much it may be wrong.
#[derive(Clone, Debug, Deserialize)]
pub struct Expected {
    pub value: f64,
    pub error: f64,
    pub oracle: String,
}

#[derive(Deserialize)]
pub struct Share {
    pub at: Duration,
    #[serde(flatten)]
    pub expected: Expected,
}

#[derive(Deserialize)]
pub struct Quantile {
    pub share: f64,
    #[serde(flatten)]
    pub expected: Expected,
}

pub fn golden() -> Vec<Setting> {
    let text = include_str!("../golden/response_times.toml");
    let golden: Golden = toml::from_str(text).unwrap();
    golden.setting
}

impl Setting {
    /// The queue.
    pub fn queue(&self) -> PoissonQueue {
        PoissonQueue {
            rate: Rate::per_second(self.rate_per_s).unwrap(),
            execution_times: self.execution_times.clone(),
            batches: self.batches.clone(),
            server: match self.server {
                Server::Dedicated => ReservationServer::Dedicated,
                Server::Deferrable { budget, period } => {
                    ReservationServer::Deferrable { budget, period }
                }
                Server::Periodic { budget, period } => {
                    ReservationServer::Periodic { budget, period }
                }
            },
        }
    }

    /// What the analysis says.
    pub fn solved(&self) -> QueueResponses {
        let solved = self.queue().solve();
        solved.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}
