//! Measurement: open-loop load, calibration, host fingerprint, noise, advice.
//!
//! [`measure`] drives one service with a fixed sequence of releases and records every latency from
//! the intended send time, so that a slow service cannot slow down its own measurement. The
//! [`synthetic`] service and the CPU [`hog`] are the programs that come with Tailbound.

pub mod advice;
pub mod calibrate;
mod client_thread;
mod connection;
pub mod endpoint;
pub mod error;
mod exchange;
mod handshake;
pub mod hog;
pub mod host;
mod http2;
pub mod load;
pub mod measurement;
mod message_link;
pub mod noise;
mod omitted_requests;
pub mod overheads;
pub mod plan;
pub mod protocol;
pub mod report_request;
mod request;
pub mod setup;
mod socket_watch;
mod stream;
pub mod supply;
pub mod synthetic;
mod tls;
mod topic_link;

pub use advice::{Advice, AdviceQuery, advice};
pub use calibrate::{
    BusyRate, Calibration, CalibrationPlan, CalibrationRound, RoundRequest, ServiceTimeSource,
    alike, calibration_round, counting,
};
pub use endpoint::Endpoint;
pub use error::MeasurementError;
pub use host::{fingerprint, fingerprint_line};
pub use load::measure;
pub use measurement::{
    ConnectionCounts, Counts, LoadConnection, Measurement, Progress, RecordOutcome, RequestRecord,
};
pub use noise::{Noise, noise};
pub use omitted_requests::OmittedRequests;
pub use overheads::{MeasuredOverheads, OverheadPlan, measure_overheads};
pub use plan::{LoadPlan, Release};
pub use report_request::{ReportRequest, ReportRequestError, ReportSocket, fetch_report};
pub use setup::{await_readiness, await_service, run_setup};
pub use supply::{LOOK_DISTANCE, SupplyGap, SupplySampler, SupplyTrace};
