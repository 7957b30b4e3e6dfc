//! As much of the WebDriver protocol as the page's test needs, over plain HTTP to a chromedriver of
//! our own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

const CHROMIUM: &str = "/usr/bin/chromium";
/// Drivers that are started until one finds its port free.
const TRIES: usize = 20;
const CHROMEDRIVER: &str = "/usr/bin/chromedriver";
const SETPRIV: &str = "/usr/bin/setpriv";

/// A browser window without a screen; closed with everything it started when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// What is missing for a browser, if anything.
pub fn missing() -> Option<&'static str> {
    [CHROMIUM, CHROMEDRIVER]
        .into_iter()
        .find(|program| !Path::new(program).exists())
}

impl Browser {
    pub fn open(width: u32, height: u32, dark: bool) -> Self {
        let (driver, port) = started_driver();
        let profile = tempfile::tempdir().expect("a folder for the profile");
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        arguments.push(format!("--window-size={width},{height}"));
        if dark {
            arguments.push("--blink-settings=preferredColorScheme=0".into());
        }
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
            _profile: profile,
        };
        let started = browser.post(
            "/session",
            &json!({"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            }}}),
        );
        let session = started["sessionId"].as_str();
        browser.session = session
            .unwrap_or_else(|| panic!("no session: {started}"))
            .to_owned();
        browser
    }

    pub fn visit(&self, file: &Path) {
        let url = format!("file://{}", file.display());
        self.command("/url", &json!({"url": url}));
    }

    /// Runs a script in the page and returns what it returns.
    pub fn script(&self, script: &str) -> Value {
        self.command("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a script until it returns `true`, for up to half a minute; says whether it did.
    pub fn becomes_true(&self, script: &str) -> bool {
        (0..300).any(|_| {
            let done = self.script(script) == Value::Bool(true);
            if !done {
                std::thread::sleep(Duration::from_millis(100));
            }
            done
        })
    }

    /// Clicks the first element that the CSS selector finds, as a user does.
    pub fn click(&self, selector: &str) {
        let query = json!({"using": "css selector", "value": selector});
        let element = self.command("/element", &query);
        let id = element
            .as_object()
            .and_then(|element| element.values().next())
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no element {selector}: {element}"));
        self.command(&format!("/element/{id}/click"), &json!({}));
    }

    /// Moves and presses a mouse: actions of a pointer as WebDriver spells them, places in pixels of
    /// the window.
    pub fn pointer(&self, actions: &[Value]) {
        let mouse = json!({
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": actions,
        });
        self.command("/actions", &json!({"actions": [mouse]}));
    }

    /// Messages of the page, and of the browser about it, on the console since the last call. The browser's own pages, such as
    /// that of a new tab, write there, too.
    pub fn console(&self) -> Vec<String> {
        let entries = self.command("/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().cloned().unwrap_or_default();
        let is_of_browser = |entry: &&Value| {
            let message = entry["message"].as_str();
            message.is_some_and(|message| message.starts_with("chrome://"))
        };
        let of_page = entries.iter().filter(|entry| !is_of_browser(entry));
        of_page.map(ToString::to_string).collect()
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        self.post(&format!("/session/{}{path}", self.session), body)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", path, &body.to_string())
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        let limit = Some(Duration::from_secs(120));
        stream.set_read_timeout(limit).expect("a limit can be set");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .expect("the driver takes requests");
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("the driver answers");
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).expect("a whole answer");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let value = answer["value"].clone();
        if let Some(error) = value.get("error").and_then(Value::as_str) {
            panic!("{method} {path}: {error}: {}", value["message"]);
        }
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.request("DELETE", &format!("/session/{}", self.session), "");
        }
        // The driver ends its browsers when it is asked to; nothing is left to do if it is gone.
        let _killed = self.driver.kill();
        let _waited = self.driver.wait();
    }
}

/// A driver, and the port that it listens on.
///
/// The driver takes a free port of IPv6, and then the same one of IPv4, which another program may have: then it ends, and the next
/// one takes another port.
fn started_driver() -> (Child, u16) {
    let started = (0..TRIES).find_map(|_| {
        // The driver must not outlive a test that is killed.
        let mut command = if Path::new(SETPRIV).exists() {
            let mut command = Command::new(SETPRIV);
            command.args(["--pdeathsig", "KILL", CHROMEDRIVER]);
            command
        } else {
            Command::new(CHROMEDRIVER)
        };
        let mut driver = command
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        match announced_port(&mut driver) {
            Some(port) => Some((driver, port)),
            None => {
                driver.wait().expect("a driver that has ended");
                None
            }
        }
    });
    started.expect("chromedriver announces its port")
}

/// The port that the driver says it listens on; `None` if it ended without.
fn announced_port(driver: &mut Child) -> Option<u16> {
    let output = driver.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(output).lines();
    let announced = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let port = line.split("started successfully on port ").nth(1)?;
        port.trim_end_matches('.').parse().ok()
    });
    // Someone must read on, or the driver stops when the pipe is full.
    std::thread::spawn(move || lines.for_each(drop));
    announced
}
