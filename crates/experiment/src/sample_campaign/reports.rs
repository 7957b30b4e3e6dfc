//! The application's own reports: asked for at an address or printed by a command, before and after a measurement.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration as Pause, Instant};

use tailbound_sampling::{PointFlag, PointRecord, ReportAddress, ReportedMetric, SINCE};

/// How long a report may take: the application is no longer under load then.
const REPORT_WITHIN: Pause = Pause::from_secs(10);
/// How often a command is looked at for its end.
const LOOK_EVERY: Pause = Pause::from_millis(5);
/// The most bytes of a report.
const REPORT_LIMIT: u64 = 4 << 20;

/// `ReportSource` asks for the metrics of a campaign.
pub(super) struct ReportSource<'a> {
    /// The metrics by name.
    pub metrics: &'a BTreeMap<String, ReportedMetric>,
    /// The folder in which commands run.
    pub folder: PathBuf,
    /// The time now, in milliseconds since 1970.
    pub now_ms: fn() -> i64,
}

/// What counters said before a measurement, or why they said nothing.
pub(super) struct EarlierReports {
    since_ms: i64,
    counters: BTreeMap<String, Result<f64, String>>,
}

impl ReportSource<'_> {
    /// Asks for what counts up since the start of the application.
    pub(super) fn before(&self) -> EarlierReports {
        let since_ms = (self.now_ms)();
        let counting = self.metrics.iter().filter(|(_, metric)| metric.counter);
        let counters = counting.map(|(name, metric)| (name.clone(), self.ask(metric, since_ms)));
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
            let after = self.ask(metric, earlier.since_ms);
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

    fn ask(&self, metric: &ReportedMetric, since_ms: i64) -> Result<f64, String> {
        let report = match &metric.url {
            Some(url) => fetched(&with_time(url, since_ms))?,
            None => self.printed(&metric.command, since_ms)?,
        };
        let value = metric.value_in(&report, (self.now_ms)());
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
            let _as_much_as_there_is = pipe.take(REPORT_LIMIT).read_to_end(&mut bytes);
        }
        let _unless_nobody_waits = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// The body of the answer to a GET. The request is one of HTTP/1.0: the answer ends with the connection.
fn fetched(url: &str) -> Result<String, String> {
    let address = ReportAddress::parse(url).ok_or_else(|| format!("{url} is no address"))?;
    let failed = |cause: std::io::Error| format!("{url}: {cause}");
    let resolved = address.authority.to_socket_addrs().map_err(failed)?;
    let Some(socket) = resolved.into_iter().next() else {
        return Err(format!("{url}: the host has no address"));
    };
    let give_up = Instant::now() + REPORT_WITHIN;
    let mut stream = TcpStream::connect_timeout(&socket, REPORT_WITHIN).map_err(failed)?;
    stream
        .set_write_timeout(Some(REPORT_WITHIN))
        .map_err(failed)?;
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nAccept: application/json, text/plain\r\n\r\n",
        address.path, address.authority
    );
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("{url}: no whole answer within {REPORT_WITHIN:?}"));
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut piece).map_err(failed)? {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
        if answer.len() as u64 > REPORT_LIMIT {
            return Err(format!(
                "{url}: the answer is longer than {REPORT_LIMIT} bytes"
            ));
        }
    }
    body(&answer).map_err(|why| format!("{url}: {why}"))
}

/// The body of a whole answer of HTTP.
fn body(answer: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Err("the answer is not HTTP".to_owned());
    };
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    let Some(code) = status
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_whitespace().nth(1))
    else {
        return Err("the answer is not HTTP".to_owned());
    };
    if code != "200" {
        return Err(format!("the answer has status {code}"));
    }
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" if value.parse() != Ok(body.len()) => {
                return Err(format!("the answer has {} of {value} bytes", body.len()));
            }
            "transfer-encoding" => {
                return Err(format!("the answer is {value}, which HTTP/1.0 has not"));
            }
            _ => {}
        }
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::TcpListener;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn source(metrics: &BTreeMap<String, ReportedMetric>) -> ReportSource<'_> {
        ReportSource {
            metrics,
            folder: std::env::temp_dir(),
            now_ms: || NOW_MS,
        }
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
    fn reports_at_an_address_are_fetched() {
        let (url, asked_for) =
            answering("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"mean\": 2.5}\n");
        let metric = |url: &str| ReportedMetric {
            url: Some(format!("{url}/report?since_ms={SINCE}")),
            json: Some("/mean".to_owned()),
            ..ReportedMetric::default()
        };
        let cut = asked(metric(&url)).unwrap_err();
        assert!(cut.contains("14 of 12 bytes"), "{cut}");
        let asked_for = asked_for.join().unwrap();
        assert!(
            asked_for.starts_with("GET /report?since_ms=1700000000000 HTTP/1.0\r\n"),
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
