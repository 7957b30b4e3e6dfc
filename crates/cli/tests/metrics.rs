//! The server of metrics, asked as Prometheus asks it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn tailbound(state: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
    command.arg("metrics").args(arguments);
    command.env("TAILBOUND_STATE_DIR", state);
    command
}

/// A server, ended with the test.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(state: &std::path::Path) -> Self {
        let mut command = tailbound(state, &["--listen", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stderr = child.stderr.take().unwrap();
        let mut lines = BufReader::new(stderr);
        lines.read_line(&mut line).unwrap();
        // Nobody reads on; the pipe is kept open all the same.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let (_, rest) = line
            .split_once("http://")
            .unwrap_or_else(|| panic!("{line}"));
        let address = rest.split('/').next().unwrap().to_owned();
        Self { child, address }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn metrics_are_served_until_the_end() {
    let state = tempfile::tempdir().unwrap();
    let mut exporter = Exporter::start(state.path());
    let silent = TcpStream::connect(&exporter.address).unwrap();
    let answer = exporter.ask("GET /metrics HTTP/1.0\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{head}");
    assert!(
        head.contains("Content-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    let once = tailbound(state.path(), &[]).output().unwrap();
    assert_eq!(body, String::from_utf8(once.stdout).unwrap());
    assert!(body.ends_with("\ntailbound_up 0\n"), "{body}");
    assert!(exporter.ask("GET / HTTP/1.0\r\n\r\n").contains(" 404 "));
    assert!(exporter.ask("nonsense\r\n\r\n").contains(" 400 "));
    drop(silent);
    let taken = tailbound(state.path(), &["--listen", &exporter.address]);
    let taken = { taken }.output().unwrap();
    let said = String::from_utf8_lossy(&taken.stderr);
    assert!(
        !taken.status.success() && said.contains("choose another port"),
        "{said}"
    );
    let pid = exporter.child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    assert!(exporter.child.wait().unwrap().success());
}

/// The alerts are rules that Prometheus takes, and fire when their tests say so; the text is one that it reads.
#[test]
fn prometheus_takes_rules_and_metrics() {
    let test = "prometheus_takes_rules_and_metrics";
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");
    let promtool = |arguments: &[&str]| {
        let mut command = Command::new("promtool");
        command.args(arguments).current_dir(rules);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn()
    };
    let end = |child: Child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    match promtool(&["check", "rules", "tailbound.rules.yml"]) {
        Ok(child) => end(child),
        Err(error) => {
            eprintln!(
                "SKIP {test}: needs promtool (on Debian: apt-get install prometheus): {error}"
            );
            return;
        }
    }
    end(promtool(&["test", "rules", "tailbound.rules.test.yml"]).unwrap());
    let state = tempfile::tempdir().unwrap();
    let metrics = tailbound(state.path(), &[]).output().unwrap().stdout;
    let mut child = promtool(&["check", "metrics"]).unwrap();
    child.stdin.take().unwrap().write_all(&metrics).unwrap();
    end(child);
}
