//! `tailbound route`: the routes of a description as a program of their own.

use sd_notify::NotifyState;
use serde::Serialize;
use tailbound_linux::clock::Monotonic;
use tailbound_linux::signal_queue::{ServiceSignal, SignalQueue};
use tailbound_task_program::{PassageCounters, RouteChoice, RoutePlan, RouteService, RouteStatus};
use tailbound_time::{Clock, Duration, Instant};

use crate::arguments::RouteArguments;
use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;
use crate::verbs::load;

/// The longest time for which the command does not see that an interval is over.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The columns of the numbers.
const HEADER: [&str; 9] = [
    "route",
    "passed",
    "beyond contract",
    "repeated",
    "too many routers",
    "no message",
    "not sent",
    "lost before",
    "failure",
];

/// Passes messages on until SIGINT or SIGTERM.
pub fn carry_out(arguments: &RouteArguments, output: &Output) -> Result<(), Failure> {
    let interval = arguments.report;
    if interval.is_some_and(Duration::is_zero) {
        let message = "--report needs an interval above zero";
        return Err(Failure::with_help(message, "write one such as 10s"));
    }
    let signals = SignalQueue::open()
        .map_err(|error| Failure::error(format!("cannot hold signals back: {error}")))?;
    let plan = plan(arguments, output)?;
    let service = RouteService::begin(plan.clone()).map_err(Failure::from_error)?;
    let mut run = RouteServiceRun {
        arguments,
        output,
        service,
        gone: Vec::new(),
        trouble: None,
    };
    output.note(in_force(&plan));
    tell(&[NotifyState::Ready, NotifyState::Status(&in_force(&plan))]);
    run.serve(&signals)?;
    tell(&[NotifyState::Stopping]);
    // A second signal ends the command at once, should a transport not let go.
    interrupts::abort_at_the_next(signals);
    let RouteServiceRun { service, gone, .. } = run;
    print(gone.into_iter().chain(service.end()), output)
}

/// The routes of the description that are asked for.
fn plan(arguments: &RouteArguments, output: &Output) -> Result<RoutePlan, Failure> {
    let loaded = load(&arguments.file, output)?;
    let choice = RouteChoice {
        host: arguments.host.clone(),
        domain: arguments.domain.clone(),
    };
    RoutePlan::of(&loaded.description, &choice).map_err(Failure::from_error)
}

fn in_force(plan: &RoutePlan) -> String {
    let routes: Vec<&str> = plan.names().collect();
    let spaces: Vec<&str> = plan.data_spaces().collect();
    format!(
        "routes in force: {}; data spaces: {}",
        routes.join(", "),
        spaces.join(", ")
    )
}

/// Routes in force, with what the user asked for.
struct RouteServiceRun<'a> {
    arguments: &'a RouteArguments,
    output: &'a Output,
    service: RouteService,
    /// The last numbers of routes that ended when the description was read again.
    gone: Vec<RouteStatus>,
    /// The trouble that was said last.
    trouble: Option<String>,
}

impl RouteServiceRun<'_> {
    /// Answers signals until one says to end.
    fn serve(&mut self, signals: &SignalQueue) -> Result<(), Failure> {
        let interval = self.arguments.report;
        let after = |now: Instant| interval.map(|interval| now.saturating_add(interval));
        let mut next = after(Monotonic.now());
        loop {
            let now = Monotonic.now();
            if next.is_some_and(|next| next <= now) {
                self.report()?;
                next = after(now);
            }
            let left = next.map_or(LOOK_EVERY, |next| next.saturating_since(now));
            let signal = signals.take(left.min(LOOK_EVERY));
            let signal = signal
                .map_err(|error| Failure::error(format!("cannot wait for signals: {error}")))?;
            match signal {
                Some(ServiceSignal::End) => return Ok(()),
                Some(ServiceSignal::Report) => self.report()?,
                Some(ServiceSignal::Reload) => self.reload(),
                None => self.begin_failed_anew(),
            }
        }
    }

    /// Begins routes anew whose transport has failed, as one does where the interface of its network goes away.
    fn begin_failed_anew(&mut self) {
        let failed = self.service.status().into_iter().find_map(|status| {
            let failure = status.failure?;
            Some(format!("route `{}`: {failure}", status.name))
        });
        let Some(failed) = failed else {
            return;
        };
        let trouble = match self.service.begin_failed_anew() {
            Ok(()) => format!("{failed}; begun anew"),
            Err(error) => format!("{failed}; not begun anew: {error}"),
        };
        // The same trouble comes at every look, and is said once.
        if self.trouble.as_ref() != Some(&trouble) {
            self.output.warn(&trouble);
            self.trouble = Some(trouble);
        }
    }

    fn report(&self) -> Result<(), Failure> {
        print(
            self.gone.iter().cloned().chain(self.service.status()),
            self.output,
        )
    }

    /// Reads the description again. If it is wrong, the routes of before stay in force.
    fn reload(&mut self) {
        let reloading = NotifyState::monotonic_usec_now();
        tell(
            &[NotifyState::Reloading]
                .into_iter()
                .chain(reloading.ok())
                .collect::<Vec<_>>(),
        );
        let outcome = plan(self.arguments, self.output).and_then(|plan| {
            let gone = self
                .service
                .replace(plan.clone())
                .map_err(Failure::from_error)?;
            self.gone.extend(gone);
            Ok(in_force(&plan))
        });
        let status = match outcome {
            Ok(status) => {
                self.output.note(&status);
                status
            }
            Err(failure) => {
                failure.render();
                let message = "the description was not taken; the routes of before are in force";
                self.output.warn(message);
                format!("{message}: {failure}")
            }
        };
        tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }
}

/// Gives the service manager its news; without one, nothing happens. Routes run on where it hears nothing.
fn tell(news: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(news);
}

/// The numbers of a route, as JSON.
#[derive(Serialize)]
struct RouteNumbers {
    route: String,
    passed: u64,
    violations: u64,
    repeated: u64,
    hops: u64,
    garbage: u64,
    failures: u64,
    lost: u64,
    failure: Option<String>,
}

impl RouteNumbers {
    fn row(&self) -> Vec<String> {
        let counts = [
            self.passed,
            self.violations,
            self.repeated,
            self.hops,
            self.garbage,
            self.failures,
            self.lost,
        ];
        let route = std::iter::once(self.route.clone());
        let row = route.chain(counts.map(|count| count.to_string()));
        row.chain([self.failure.clone().unwrap_or_default()])
            .collect()
    }
}

impl From<RouteStatus> for RouteNumbers {
    fn from(status: RouteStatus) -> Self {
        let PassageCounters {
            passed,
            repeated,
            hops,
            garbage,
            violations,
            failures,
            lost,
        } = status.counters;
        Self {
            route: status.name,
            passed,
            violations,
            repeated,
            hops,
            garbage,
            failures,
            lost,
            failure: status.failure,
        }
    }
}

/// The answer as JSON.
#[derive(Serialize)]
struct RouteReport<'a> {
    routes: &'a [RouteNumbers],
}

fn print(statuses: impl Iterator<Item = RouteStatus>, output: &Output) -> Result<(), Failure> {
    let routes: Vec<RouteNumbers> = statuses.map(RouteNumbers::from).collect();
    let rows: Vec<Vec<String>> = routes.iter().map(RouteNumbers::row).collect();
    output.rows(&HEADER, &rows, &RouteReport { routes: &routes })
}
