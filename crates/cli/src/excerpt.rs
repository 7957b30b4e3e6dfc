//! Problems of a file, each with the lines that it is about.

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource};
use tailbound_model::{Problem, Problems, Severity};

/// Prints each problem to standard error: plainly where it is no terminal, with an excerpt of the
/// file where it is one. The first line of both is `FILE:LINE:COLUMN: error: KEY: MESSAGE`.
pub fn render(problems: &Problems, text: &str) {
    use std::io::IsTerminal;
    let terminal = std::io::stderr().is_terminal();
    for problem in problems {
        if terminal {
            eprintln!("{}", with_excerpt(problem, text));
        } else {
            eprintln!("{problem}");
        }
    }
}

fn with_excerpt(problem: &Problem, text: &str) -> String {
    let label = LabeledSpan::new_with_span(None, problem.span.clone());
    let severity = match problem.severity {
        Severity::Error => miette::Severity::Error,
        Severity::Warning => miette::Severity::Warning,
        Severity::Note => miette::Severity::Advice,
    };
    let subject = if problem.key.is_empty() {
        String::new()
    } else {
        format!("{}: ", problem.key)
    };
    let mut diagnostic = MietteDiagnostic::new(format!("{subject}{}", problem.message))
        .with_severity(severity)
        .with_label(label);
    if !problem.remedy.is_empty() {
        diagnostic = diagnostic.with_help(&problem.remedy);
    }
    let report = miette::Report::new(diagnostic)
        .with_source_code(NamedSource::new(&problem.file, text.to_owned()));
    let mut rendered = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode());
    match handler.render_report(&mut rendered, report.as_ref()) {
        Ok(()) => rendered,
        Err(_) => problem.to_string(),
    }
}
