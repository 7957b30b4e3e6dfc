//! The start of every page.

use super::{CHART_STYLE, PAGE_STYLE, escaped, script_hash};

/// All before the content of a page that loads nothing: its content security policy allows these
/// scripts and no other. Only pages with scripts have charts, whose style they get.
pub(crate) fn head(title: &str, tailbound_version: &str, scripts: &[&str]) -> String {
    let hashes: Vec<String> = scripts.iter().map(|script| script_hash(script)).collect();
    let (policy, chart_style) = match scripts {
        [] => (String::new(), String::new()),
        _ => (
            format!("script-src {}; ", hashes.join(" ")),
            format!("<style>{CHART_STYLE}</style>\n"),
        ),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:; {policy}base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Tailbound {version}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title} \u{b7} Tailbound</title>\n\
         {chart_style}<style>{PAGE_STYLE}</style>\n</head>\n<body>\n",
        version = escaped(tailbound_version),
        title = escaped(title),
    )
}
