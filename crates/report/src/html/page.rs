//! The frame of every page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::escape::{escaped, escaped_json};

const CHART_SCRIPT: &str = include_str!("../../assets/uPlot.iife.min.js");
const CHART_STYLE: &str = include_str!("../../assets/uPlot.min.css");
const PAGE_STYLE: &str = include_str!("../../assets/page.css");

/// A page that needs nothing but a browser. It holds its own scripts, styles and data, and loads nothing.
pub(crate) struct Page<'a> {
    /// The title.
    pub title: &'a str,
    /// The version that made it.
    pub tailbound_version: &'a str,
    /// The section that readers with a keyboard may skip to.
    pub skip_to: Option<&'static str>,
    /// The short facts below the title, as markup.
    pub facts: String,
    /// The sections, as markup.
    pub content: String,
    /// The script that draws charts.
    pub script: Option<PageScript>,
}

/// A script of ours, and the data that it reads.
pub(crate) struct PageScript {
    /// The script.
    pub code: &'static str,
    /// The name of the data.
    pub data_id: &'static str,
    /// The data.
    pub data: Value,
}

impl Page<'_> {
    /// The page as HTML.
    pub(crate) fn render(&self) -> String {
        let scripts = self
            .script
            .as_ref()
            .map(|script| [CHART_SCRIPT, script.code]);
        let head = head(self.title, self.tailbound_version, scripts.as_ref());
        let version = escaped(self.tailbound_version);
        let skip = self.skip_to.map_or_else(String::new, |id| {
            format!("<a class=\"skip\" href=\"#{id}\">Skip to the results</a>\n")
        });
        let (plots, scripts) = match &self.script {
            None => ("", String::new()),
            Some(PageScript {
                code,
                data_id,
                data,
            }) => (
                " Plots by uPlot (MIT).",
                format!(
                    "<script type=\"application/json\" id=\"{data_id}\">{}</script>\n\
                     <script>{CHART_SCRIPT}</script>\n<script>{code}</script>\n",
                    escaped_json(&data.to_string())
                ),
            ),
        };
        format!(
            "{head}{skip}<header class=\"page\"><p class=\"brand\">Tailbound</p><h1>{title}</h1>\
             {facts}</header>\n<main>\n{content}</main>\n<footer><p>Made by Tailbound {version}.{plots} \
             This page is complete: it loads nothing from anywhere.</p></footer>\n\
             {scripts}</body>\n</html>\n",
            title = escaped(self.title),
            facts = self.facts,
            content = self.content,
        )
    }
}

/// A line of facts, each of which is text; empty ones are left out.
pub(crate) fn facts(facts: &[&str]) -> String {
    let facts = facts.iter().filter(|text| !text.is_empty());
    let facts: String = facts
        .map(|text| format!("<span>{}</span>", escaped(text)))
        .collect();
    format!("<p class=\"facts\">{facts}</p>")
}

/// The source expression by which a content security policy allows exactly this script.
fn script_hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}

/// All before the content of a page that loads nothing: its content security policy allows these
/// scripts and no other. Only pages with scripts have charts, whose style they get.
fn head(title: &str, tailbound_version: &str, scripts: Option<&[&str; 2]>) -> String {
    let (policy, chart_style) = match scripts {
        None => (String::new(), String::new()),
        Some(scripts) => (
            format!("script-src {}; ", scripts.map(script_hash).join(" ")),
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
