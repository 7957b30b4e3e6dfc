//! Requests as a description spells them, made ready to be sent many times.
//!
//! In the arguments of a Redis command, in an HTTP path and in a query of PostgreSQL, `{random}` becomes a random number
//! (`{random:100}` one below 100), `{index}` the count of the repetition, and `{busy:2ms}` the
//! loop count that keeps the service busy so long; in requests of users a column of their parameters, such as `{lat}`,
//! becomes the value of the row. Other braces stay as they are, since arguments
//! may be JSON or Lua.

use std::net::Ipv6Addr;

use ::http::uri::Authority;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tailbound_model::{ParameterTable, Protocol, Request, Scheduling, Service, Task};
use tailbound_time::Duration;

use crate::protocol::frame::WorkRequest;
use crate::protocol::{http, postgresql, resp};
use crate::{BusyRate, MeasurementError};

/// What `{random}` draws from where the setup does not tell: 0 to this, exclusive.
const RANDOM_BELOW: u64 = 1_000_000;

/// One part of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestPiece {
    /// Bytes to send as they are.
    Text(Vec<u8>),
    /// `{random}`.
    Random {
        /// Draws stay below this.
        below: u64,
    },
    /// `{index}`.
    Index,
    /// `{busy:...}`.
    Busy(Duration),
    /// A column of the users' parameters.
    Parameter(usize),
}

/// A request with its placeholders found.
#[derive(Clone, Debug)]
pub(crate) enum RequestTemplate {
    /// The arguments of a Redis command.
    Redis(Vec<Vec<RequestPiece>>),
    /// An HTTP GET.
    Http {
        /// The path.
        path: Vec<RequestPiece>,
        /// The host that is asked.
        host: Authority,
    },
    /// The text of a query of PostgreSQL.
    Postgresql(Vec<RequestPiece>),
    /// Work for the synthetic service.
    Synthetic {
        /// Before which others.
        priority: u32,
    },
}

/// How `{busy:...}` becomes a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Busy {
    /// Nothing is known; only for templates without it.
    Unknown,
    /// By this rate.
    Rate(BusyRate),
    /// Always this many iterations, to find the rate.
    Iterations(u64),
}

/// What fills the placeholders of one request.
pub(crate) struct Filling<'a> {
    /// `{index}`, or the id of a synthetic request.
    pub(crate) index: u64,
    /// For `{random}`.
    pub(crate) random: &'a mut ChaCha8Rng,
    /// For `{busy:...}`.
    pub(crate) busy: Busy,
    /// The work of a synthetic request.
    pub(crate) execution: Duration,
    /// The values of the columns of the users' parameters.
    pub(crate) parameters: &'a [String],
}

impl RequestTemplate {
    /// The template of `task`'s request, with placeholders for the columns of `parameters`.
    ///
    /// # Errors
    /// A request that is missing, or not of the service's protocol; values that have no place in a path.
    pub(crate) fn of_task(
        service: &Service,
        name: &str,
        parameters: Option<&ParameterTable>,
    ) -> Result<Self, MeasurementError> {
        let is_path = service.protocol == Protocol::Http;
        if is_path && parameters.is_some_and(|table| !table.is_of_one_word_values()) {
            return Err(MeasurementError::BadPlan {
                what: "a value of the users' parameters has a blank or a control character in it"
                    .into(),
                remedy: "encode it as paths of HTTP have it, such as %20 for a blank".into(),
            });
        }
        let Some(task) = service.tasks.get(name) else {
            return Err(MeasurementError::BadPlan {
                what: format!("the plan releases task {name}, which the service does not have"),
                remedy: "make releases and service from the same description".into(),
            });
        };
        match (service.protocol, &task.request) {
            (Protocol::Synthetic | Protocol::IcmpEcho, _) => Ok(Self::Synthetic {
                priority: synthetic_priority(service, task),
            }),
            (_, Some(request)) => Self::of_request(service, request, parameters),
            (_, None) => Err(MeasurementError::BadPlan {
                what: format!("task {name} has no request"),
                remedy: "say what is sent, such as request = { command = [\"PING\"] }".into(),
            }),
        }
    }

    /// The template of one request to `service`.
    ///
    /// # Errors
    /// A request that is not of the service's protocol, or a duration in it that is none.
    pub(crate) fn of_request(
        service: &Service,
        request: &Request,
        parameters: Option<&ParameterTable>,
    ) -> Result<Self, MeasurementError> {
        let names = Placeholders {
            random_below: random_below(service),
            parameters,
        };
        match (service.protocol, request) {
            (Protocol::Redis, Request::Redis { command, .. }) if !command.is_empty() => command
                .iter()
                .map(|argument| pieces(argument, &names))
                .collect::<Result<_, _>>()
                .map(Self::Redis),
            (Protocol::Http, Request::Http { path }) => Ok(Self::Http {
                path: pieces(path, &names)?,
                host: host(service)?,
            }),
            (Protocol::Postgresql, Request::Postgresql { query, .. }) => {
                pieces(query, &names).map(Self::Postgresql)
            }
            _ => Err(MeasurementError::BadPlan {
                what: format!(
                    "request {request:?} is none of the service's protocol, {:?}",
                    service.protocol
                ),
                remedy: "give a non-empty command to Redis, a path to HTTP, a query to PostgreSQL"
                    .into(),
            }),
        }
    }

    /// A request that asks for no work; `None` for HTTP, which has none.
    pub(crate) fn trivial(protocol: Protocol) -> Option<Self> {
        match protocol {
            Protocol::Redis => Some(Self::Redis(vec![vec![RequestPiece::Text(
                b"PING".to_vec(),
            )]])),
            Protocol::Synthetic | Protocol::IcmpEcho => Some(Self::Synthetic { priority: 0 }),
            Protocol::Postgresql => Some(Self::Postgresql(vec![RequestPiece::Text(
                b"SELECT".to_vec(),
            )])),
            Protocol::Http => None,
        }
    }

    /// Whether it needs a [`BusyRate`].
    pub(crate) fn needs_busy_rate(&self) -> bool {
        let busy =
            |pieces: &Vec<RequestPiece>| pieces.iter().any(|p| matches!(p, RequestPiece::Busy(_)));
        match self {
            Self::Redis(arguments) => arguments.iter().any(busy),
            Self::Http { path: pieces, .. } | Self::Postgresql(pieces) => busy(pieces),
            Self::Synthetic { .. } => false,
        }
    }

    /// The host that an HTTP request asks.
    pub(crate) fn host(&self) -> Option<&Authority> {
        match self {
            Self::Http { host, .. } => Some(host),
            _ => None,
        }
    }

    /// Overwrites `out` with the path of an HTTP request, filled in.
    pub(crate) fn fill_path(&self, out: &mut Vec<u8>, filling: &mut Filling) {
        out.clear();
        if let Self::Http { path, .. } = self {
            fill(out, path, filling);
        }
    }

    /// Appends the request to `out`, filled in; `scratch` is overwritten.
    pub(crate) fn write(&self, out: &mut Vec<u8>, scratch: &mut Vec<u8>, filling: &mut Filling) {
        match self {
            Self::Synthetic { priority } => {
                let request = WorkRequest {
                    id: filling.index,
                    execution: filling.execution,
                    priority: *priority,
                };
                out.extend_from_slice(&request.to_bytes());
            }
            Self::Http { host, .. } => {
                self.fill_path(scratch, filling);
                http::write_get(out, scratch, host.as_str().as_bytes());
            }
            Self::Postgresql(query) => {
                scratch.clear();
                fill(scratch, query, filling);
                postgresql::write_query(out, scratch);
            }
            Self::Redis(arguments) => {
                resp::write_array_header(out, arguments.len());
                for argument in arguments {
                    scratch.clear();
                    fill(scratch, argument, filling);
                    resp::write_bulk(out, scratch);
                }
            }
        }
    }
}

/// The host that requests to a service name: that of its certificate, where it has one.
fn host(service: &Service) -> Result<Authority, MeasurementError> {
    let name = service.server_name().unwrap_or("localhost");
    let text = match name.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{name}]"),
        Err(_) => name.to_owned(),
    };
    text.parse::<Authority>()
        .map_err(|error| MeasurementError::BadPlan {
            what: format!("requests cannot name the host {name:?}: {error}"),
            remedy: "write a host name or an IP address in tls.server_name".into(),
        })
}

fn fill(out: &mut Vec<u8>, pieces: &[RequestPiece], filling: &mut Filling) {
    for piece in pieces {
        let number = match piece {
            RequestPiece::Text(text) => {
                out.extend_from_slice(text);
                continue;
            }
            RequestPiece::Parameter(column) => {
                let value = filling.parameters.get(*column);
                out.extend_from_slice(value.map_or(&b""[..], |value| value.as_bytes()));
                continue;
            }
            RequestPiece::Random { below } => filling.random.random_range(0..*below),
            RequestPiece::Index => filling.index,
            RequestPiece::Busy(length) => match filling.busy {
                Busy::Iterations(count) => count,
                Busy::Rate(rate) => rate.iterations_for(*length),
                Busy::Unknown => 0,
            },
        };
        out.extend_from_slice(number.to_string().as_bytes());
    }
}

/// What placeholders there are.
struct Placeholders<'a> {
    /// What `{random}` draws below.
    random_below: u64,
    /// The columns that stand for placeholders, too.
    parameters: Option<&'a ParameterTable>,
}

/// Cuts `argument` at its placeholders.
fn pieces(argument: &str, names: &Placeholders<'_>) -> Result<Vec<RequestPiece>, MeasurementError> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = argument;
    while let Some(open) = rest.find('{') {
        text.extend_from_slice(&rest.as_bytes()[..open]);
        let inside = rest[open + 1..].split_once('}');
        let piece = match inside {
            Some((name, _)) => placeholder(name, names)?,
            None => None,
        };
        match (piece, inside) {
            (Some(piece), Some((_, after))) => {
                if !text.is_empty() {
                    pieces.push(RequestPiece::Text(std::mem::take(&mut text)));
                }
                pieces.push(piece);
                rest = after;
            }
            _ => {
                text.push(b'{');
                rest = &rest[open + 1..];
            }
        }
    }
    text.extend_from_slice(rest.as_bytes());
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(RequestPiece::Text(text));
    }
    Ok(pieces)
}

/// The placeholder called `name`, if it is one.
fn placeholder(
    name: &str,
    names: &Placeholders<'_>,
) -> Result<Option<RequestPiece>, MeasurementError> {
    let bad = |cause: String, remedy: &str| MeasurementError::BadPlan {
        what: format!("{{{name}}} in a request: {cause}"),
        remedy: remedy.into(),
    };
    if let Some(length) = name.strip_prefix("busy:") {
        return match length.parse() {
            Ok(length) => Ok(Some(RequestPiece::Busy(length))),
            Err(cause) => Err(bad(cause.to_string(), "write {busy:2ms}")),
        };
    }
    if let Some(below) = name.strip_prefix("random:") {
        return match below.parse() {
            Ok(below) if below > 0 => Ok(Some(RequestPiece::Random { below })),
            _ => Err(bad("no count above zero".into(), "write {random:100}")),
        };
    }
    Ok(match name {
        "random" => Some(RequestPiece::Random {
            below: names.random_below,
        }),
        "index" => Some(RequestPiece::Index),
        name => {
            let column = names.parameters.and_then(|table| table.column(name));
            column.map(RequestPiece::Parameter)
        }
    })
}

/// What `{random}` draws below: the largest `repeat` of the setup, so that `key:{random}` hits the
/// keys that `key:{index}` made.
fn random_below(service: &Service) -> u64 {
    let repeats = service.setup.iter().map(Request::repeat);
    let repeats = repeats.filter(|repeat| *repeat > 1);
    repeats.max().map(u64::from).unwrap_or(RANDOM_BELOW)
}

/// The priority that makes the synthetic service run jobs in the described order.
fn synthetic_priority(service: &Service, task: &Task) -> u32 {
    match service.scheduling {
        // No service takes turns; a description that says so is refused.
        Scheduling::Fifo | Scheduling::RoundRobin => 0,
        Scheduling::FixedPriority => task.priority.map_or(0, |priority| u32::from(priority.0)),
        Scheduling::RateMonotonic => {
            let gap = task.arrivals.rate_monotonic_gap();
            let slower = |other: &&Task| other.arrivals.rate_monotonic_gap() > gap;
            service.tasks.values().filter(slower).count() as u32
        }
        Scheduling::DeadlineMonotonic => {
            let own = relative_deadline(task);
            let later = |other: &&Task| relative_deadline(other) > own;
            service.tasks.values().filter(later).count() as u32
        }
        // The service adds it to when the job comes; beyond 71 minutes all are the same.
        Scheduling::EarliestDeadlineFirst => {
            let microseconds = relative_deadline(task).as_nanos().div_ceil(1_000);
            u32::try_from(microseconds).unwrap_or(u32::MAX)
        }
    }
}

fn relative_deadline(task: &Task) -> Duration {
    task.relative_deadline().unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use tailbound_model::{Arrivals, ExecutionTime};

    use super::*;

    fn service(protocol: Protocol, setup: Vec<Request>) -> Service {
        Service {
            protocol,
            setup,
            ..Service::of("d", "unix:s", BTreeMap::<String, Task>::new())
        }
    }

    fn redis(command: &[&str], repeat: u32) -> Request {
        Request::Redis {
            command: command.iter().map(ToString::to_string).collect(),
            repeat,
        }
    }

    fn written(service: &Service, request: &Request, seed: u64) -> String {
        let template = RequestTemplate::of_request(service, request, None).unwrap();
        let mut out = Vec::new();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut filling = Filling {
            index: 7,
            random: &mut random,
            busy: Busy::Rate(BusyRate {
                iterations_per_millisecond: 1000.0,
            }),
            execution: Duration::ZERO,
            parameters: &[],
        };
        template.write(&mut out, &mut Vec::new(), &mut filling);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fills_what_it_knows_and_leaves_other_braces() {
        let request = redis(&["SET", "k:{index}:{x}", "{\"a\":{}}{busy:2.5ms}{", ""], 1);
        assert_eq!(
            written(&service(Protocol::Redis, vec![]), &request, 1),
            "*4\r\n$3\r\nSET\r\n$7\r\nk:7:{x}\r\n$13\r\n{\"a\":{}}2500{\r\n$0\r\n\r\n"
        );
    }

    #[test]
    fn random_numbers_hit_what_the_setup_made_and_follow_the_seed() {
        let setup = vec![redis(&["RPUSH", "l", "{index}"], 5)];
        let service = service(Protocol::Redis, setup);
        let request = redis(&["{random}"], 1);
        for seed in 0..50 {
            let text = written(&service, &request, seed);
            assert_eq!(text, written(&service, &request, seed));
            let number: u64 = text.lines().last().unwrap().parse().unwrap();
            assert!(number < 5, "{number}");
        }
    }

    #[test]
    fn http_paths_are_filled_too() {
        let request = Request::Http {
            path: "/work/{index}".into(),
        };
        let text = written(&service(Protocol::Http, vec![]), &request, 1);
        assert!(text.starts_with("GET /work/7 HTTP/1.1\r\nHost: "), "{text}");
    }

    #[test]
    fn says_which_placeholder_is_wrong() {
        let service = service(Protocol::Redis, vec![]);
        for argument in ["{busy:2}", "{random:0}", "{random:x}"] {
            let error = RequestTemplate::of_request(&service, &redis(&[argument], 1), None);
            let text = error.unwrap_err().to_string();
            assert!(text.contains(argument), "{text}");
        }
        let path = Request::Http { path: "/".into() };
        assert!(RequestTemplate::of_request(&service, &path, None).is_err());
    }

    #[test]
    fn rate_monotonic_priorities_follow_the_gaps() {
        let task = |arrivals| {
            Task::of(
                arrivals,
                ExecutionTime::Constant {
                    value: Duration::from_millis(1),
                },
            )
        };
        let mut service = service(Protocol::Synthetic, vec![]);
        service.scheduling = Scheduling::RateMonotonic;
        let (period, offset) = (Duration::from_millis(10), Duration::ZERO);
        let fast = task(Arrivals::Periodic { period, offset });
        let slow = task(Arrivals::Poisson {
            rate: "20/s".parse().unwrap(),
        });
        service.tasks = BTreeMap::from([("fast".into(), fast), ("slow".into(), slow)]);
        let priority = |name: &str| synthetic_priority(&service, &service.tasks[name]);
        assert!(priority("fast") > priority("slow"));
    }

    #[test]
    fn deadlines_make_priorities() {
        let ms = Duration::from_millis;
        let task = |period_ms: u64, deadline_ms: Option<u64>| Task {
            deadline: deadline_ms.map(ms),
            ..Task::of(
                Arrivals::Periodic {
                    period: ms(period_ms),
                    offset: Duration::ZERO,
                },
                ExecutionTime::Constant { value: ms(1) },
            )
        };
        let mut service = service(Protocol::Synthetic, vec![]);
        service.tasks = BTreeMap::from([
            ("often".into(), task(10, None)),
            ("urgent".into(), task(50, Some(5))),
        ]);
        service.scheduling = Scheduling::DeadlineMonotonic;
        let priority =
            |service: &Service, name: &str| synthetic_priority(service, &service.tasks[name]);
        assert!(priority(&service, "urgent") > priority(&service, "often"));
        service.scheduling = Scheduling::EarliestDeadlineFirst;
        assert_eq!(priority(&service, "urgent"), 5_000);
        assert_eq!(priority(&service, "often"), 10_000);
    }

    proptest! {
        #[test]
        fn no_argument_panics(argument in "[{}a-z:0-9]{0,30}|\\PC*") {
            let request = redis(&["GET", &argument], 1);
            let service = service(Protocol::Redis, vec![]);
            if RequestTemplate::of_request(&service, &request, None).is_ok() {
                let text = written(&service, &request, 1);
                prop_assert!(text.starts_with("*2\r\n$3\r\nGET\r\n$"));
            }
        }
    }
}
