//! The application's own reports: asked for at an address or printed by a command, before and after a measurement.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration as Pause, Instant};

use tailbound_application_report::ReportAddress;
use tailbound_measurement::endpoint::TlsClient;
use tailbound_measurement::{ReportRequest, ReportSocket, fetch_report};
use tailbound_model::HttpVersion;
use tailbound_sampling::{PointFlag, PointRecord, ReportedMetric, SINCE};
use tailbound_time::Duration;

use super::SampleError;

/// How long a report may take: the application is no longer under load then.
const REPORT_WITHIN: Pause = Pause::from_secs(10);
/// How often a command is looked at for its end.
const LOOK_EVERY: Pause = Pause::from_millis(5);
/// The most bytes of a report.
const REPORT_LIMIT: usize = 4 << 20;
/// The media types of the forms of reports.
const ACCEPTED: &str = "application/json, application/xml, text/xml, text/plain";

/// `ReportSource` asks for the metrics of a campaign.
pub(super) struct ReportSource<'a> {
    metrics: &'a BTreeMap<String, ReportedMetric>,
    /// The folder in which commands run.
    folder: PathBuf,
    /// The time now, in milliseconds since 1970.
    now_ms: fn() -> i64,
    /// The certificates of metrics at `https` addresses, by the metrics' names.
    tls: BTreeMap<String, Arc<TlsClient>>,
}

/// What counters said before a measurement, or why they said nothing.
pub(super) struct EarlierReports {
    since_ms: i64,
    counters: BTreeMap<String, Result<f64, String>>,
}

impl<'a> ReportSource<'a> {
    /// The source of the reports of metrics; commands run in a folder, which also has the certificates.
    ///
    /// # Errors
    /// The certificates of a metric cannot be read.
    pub(super) fn new(
        metrics: &'a BTreeMap<String, ReportedMetric>,
        folder: PathBuf,
        now_ms: fn() -> i64,
    ) -> Result<Self, SampleError> {
        let mut clients = BTreeMap::new();
        for (name, metric) in metrics {
            let address = metric.url.as_deref().and_then(ReportAddress::parse);
            let (Some(tls), Some(address)) = (&metric.tls, address) else {
                continue;
            };
            let server_name = tls.server_name.as_ref().unwrap_or(&address.host);
            let client = TlsClient::read(tls, server_name, HttpVersion::One, &folder);
            let client = client.map_err(|cause| SampleError::Certificates {
                metric: name.clone(),
                cause: cause.to_string(),
            })?;
            clients.insert(name.clone(), Arc::new(client));
        }
        Ok(Self {
            metrics,
            folder,
            now_ms,
            tls: clients,
        })
    }

    /// Asks for what counts up since the start of the application.
    pub(super) fn before(&self) -> EarlierReports {
        let since_ms = (self.now_ms)();
        let counting = self.metrics.iter().filter(|(_, metric)| metric.counter);
        let counters =
            counting.map(|(name, metric)| (name.clone(), self.ask(name, metric, since_ms)));
        EarlierReports {
            counters: counters.collect(),
            since_ms,
        }
    }

    /// Asks for every metric, and enters values and faults.
    pub(super) fn enter(&self, earlier: &EarlierReports, record: &mut PointRecord) {
        for (name, metric) in self.metrics {
            let before = match earlier.counters.get(name) {
                Some(before) => before.clone(),
                None => Ok(0.0),
            };
            let after = self.ask(name, metric, earlier.since_ms);
            let value = before.and_then(|before| {
                let between = metric.value_between(before, after?);
                between.map_err(|fault| fault.to_string())
            });
            match value {
                Ok(value) => {
                    record.metrics.insert(name.clone(), value);
                }
                Err(why) => {
                    record.metric_faults.insert(name.clone(), why);
                    record.flags.insert(PointFlag::OddMetric);
                }
            }
        }
    }

    fn ask(&self, name: &str, metric: &ReportedMetric, since_ms: i64) -> Result<f64, String> {
        let report = match &metric.url {
            Some(url) => fetched(&with_time(url, since_ms), self.tls.get(name))?,
            None => self.printed(&metric.command, since_ms)?,
        };
        let value = metric.value_in(&report, since_ms, (self.now_ms)());
        value.map_err(|fault| fault.to_string())
    }

    /// What a command prints.
    fn printed(&self, words: &[String], since_ms: i64) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| with_time(word, since_ms)).collect();
        let Some((program, arguments)) = words.split_first() else {
            return Err("there is no command".to_owned());
        };
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for us: the measurement ends as a whole one.
            .process_group(0)
            .spawn()
            .map_err(|cause| format!("cannot start {program}: {cause}"))?;
        let output = read_in_background(child.stdout.take());
        let complaint = read_in_background(child.stderr.take());
        let give_up = Instant::now() + REPORT_WITHIN;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < give_up => std::thread::sleep(LOOK_EVERY),
                Ok(None) => {
                    let _is_dead_either_way = child.kill();
                    let _is_reaped = child.wait();
                    return Err(format!("{program} did not end within {REPORT_WITHIN:?}"));
                }
                Err(cause) => return Err(format!("{program}: {cause}")),
            }
        };
        // A child of the command may keep its pipes open for ever.
        let text = |reader: Receiver<String>| {
            let left = give_up.saturating_duration_since(Instant::now());
            reader
                .recv_timeout(left)
                .map_err(|_| format!("{program} ended, and its output did not"))
        };
        match status.success() {
            true => text(output),
            false => {
                let complaint = text(complaint)?;
                let last = complaint.lines().last().unwrap_or("it says nothing");
                Err(format!("{program} failed ({status}): {last}"))
            }
        }
    }
}

fn with_time(text: &str, since_ms: i64) -> String {
    text.replace(SINCE, &since_ms.to_string())
}

/// Reads a pipe in a thread of its own, so that no full pipe holds the command up.
fn read_in_background(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _as_much_as_there_is = pipe.take(REPORT_LIMIT as u64).read_to_end(&mut bytes);
        }
        let _unless_nobody_waits = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// The report at an address.
fn fetched(url: &str, tls: Option<&Arc<TlsClient>>) -> Result<String, String> {
    let address = ReportAddress::parse(url).ok_or_else(|| format!("{url} is no address"))?;
    let resolved = (address.host.as_str(), address.port).to_socket_addrs();
    let resolved = resolved.map_err(|cause| format!("{url}: {cause}"))?;
    let sockets: Vec<SocketAddr> = resolved.collect();
    let request = ReportRequest {
        socket: ReportSocket::Tcp(&sockets),
        tls,
        host: &address.authority(),
        path: &address.path,
        accept: ACCEPTED,
        within: Duration::from_nanos(REPORT_WITHIN.as_nanos() as u64),
        limit_bytes: REPORT_LIMIT,
    };
    let report = fetch_report(&request).map_err(|error| format!("{url}: {error}"))?;
    String::from_utf8(report).map_err(|_| format!("{url}: the report is not in UTF-8"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use tailbound_model::ServiceTls;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn source(metrics: &BTreeMap<String, ReportedMetric>) -> ReportSource<'_> {
        ReportSource::new(metrics, std::env::temp_dir(), || NOW_MS).unwrap()
    }

    fn printing(script: &str) -> ReportedMetric {
        ReportedMetric {
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            ..ReportedMetric::default()
        }
    }

    fn asked(metric: ReportedMetric) -> Result<f64, String> {
        let metrics = BTreeMap::from([("own".to_owned(), metric)]);
        let source = source(&metrics);
        let mut record = PointRecord::default();
        source.enter(&source.before(), &mut record);
        assert_eq!(
            record.flags.contains(&PointFlag::OddMetric),
            record.metrics.is_empty()
        );
        match record.metrics.get("own") {
            Some(value) => Ok(*value),
            None => Err(record.metric_faults["own"].clone()),
        }
    }

    /// Answers one request with these bytes, and returns what was asked.
    fn answering(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        (format!("http://{address}"), asked)
    }

    #[test]
    fn commands_print_numbers_or_say_why_not() {
        assert_eq!(asked(printing("echo {since_ms}")), Ok(NOW_MS as f64));
        let failed = asked(printing("echo no table >&2; exit 3")).unwrap_err();
        assert!(failed.contains("no table"), "{failed}");
        let nothing = asked(ReportedMetric {
            command: vec!["no-such-program".to_owned()],
            ..ReportedMetric::default()
        });
        assert!(nothing.unwrap_err().contains("cannot start"));
    }

    #[test]
    fn counters_are_asked_for_twice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("count");
        std::fs::write(&file, "7\n").unwrap();
        let file = file.display();
        let mut metric = printing(&format!("cat {file}; echo 9 > {file}"));
        metric.counter = true;
        assert_eq!(asked(metric), Ok(2.0));
    }

    #[test]
    fn certificates_that_cannot_be_read_end_the_campaign_before_it_begins() {
        let metric = ReportedMetric {
            url: Some("https://127.0.0.1/report".to_owned()),
            tls: Some(ServiceTls {
                authority: "no-such-file.pem".into(),
                server_name: None,
                certificate: None,
                key: None,
            }),
            ..ReportedMetric::default()
        };
        let metrics = BTreeMap::from([("own".to_owned(), metric)]);
        let refused = ReportSource::new(&metrics, std::env::temp_dir(), || NOW_MS);
        let refused = refused.err().unwrap().to_string();
        assert!(
            refused.starts_with("sampling.metrics.own: tls.authority: "),
            "{refused}"
        );
        assert!(refused.contains("no-such-file.pem"), "{refused}");
    }

    #[test]
    fn reports_at_an_address_are_fetched() {
        let (url, asked_for) =
            answering("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"mean\": 2.5}\n");
        let metric = |url: &str| ReportedMetric {
            url: Some(format!("{url}/report?since_ms={SINCE}")),
            json: Some("/mean".to_owned()),
            ..ReportedMetric::default()
        };
        let cut = asked(metric(&url)).unwrap_err();
        assert!(cut.contains("ends early"), "{cut}");
        let asked_for = asked_for.join().unwrap();
        assert!(
            asked_for.starts_with("GET /report?since_ms=1700000000000 HTTP/1.1\r\n"),
            "{asked_for}"
        );
        let (url, _) = answering("HTTP/1.1 200 OK\r\n\r\n{\"mean\": 2.5}");
        assert_eq!(asked(metric(&url)), Ok(2.5));
        let (url, _) = answering("HTTP/1.1 503 Service Unavailable\r\n\r\n");
        assert!(asked(metric(&url)).unwrap_err().contains("status 503"));
        let (url, _) = answering("garbage");
        assert!(asked(metric(&url)).unwrap_err().contains("not HTTP"));
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            format!("http://{}", listener.local_addr().unwrap())
        };
        assert!(asked(metric(&closed)).is_err());
    }
}
