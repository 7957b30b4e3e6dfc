//! The sections with results.

use tailbound_analysis::Outlook;
use tailbound_distribution::Interval;
use tailbound_time::Duration;

use super::data::capitalised;
use super::escape::escaped;
use crate::palette::Theme;
use crate::svg::render_svg;
use crate::wording::{readable, readable_interval, readable_option};
use crate::{
    Cell, Outcome, Plot, RunReport, Scale, SeriesKind, Table, VariantResult, Verdict, VerticalAxis,
};

/// What stands below the title: when, with which seed and version, and how many promises were kept.
pub(super) fn facts(report: &RunReport) -> String {
    let seed = format!("seed {}", report.seed);
    let version = format!("version {}", report.tailbound_version);
    super::facts(&[&report.started_at, &seed, &version]) + &summary(report)
}

/// How many promises each variant kept, in one line each: as measured, or as predicted where nothing was measured.
pub(super) fn summary(report: &RunReport) -> String {
    let mut variants: Vec<&str> = Vec::new();
    let judged = report
        .variants
        .iter()
        .filter(|one| !one.verdicts.is_empty());
    for result in judged.clone() {
        if !variants.contains(&result.variant.as_str()) {
            variants.push(&result.variant);
        }
    }
    let palette_size = Theme::Light.palette().variants().len();
    let items = variants.iter().enumerate().map(|(place, variant)| {
        let results = judged.clone().filter(|one| one.variant == *variant);
        let verdicts: Vec<&Verdict> = results.flat_map(|one| &one.verdicts).collect();
        let (count, word) = kept(&verdicts);
        format!(
            "<li class=\"v{}\"><span class=\"count\">{count}<span> of {}</span></span>\
             <span class=\"of\">{} {word} in <b>{}</b></span></li>",
            place % palette_size,
            verdicts.len(),
            if verdicts.len() == 1 {
                "promise"
            } else {
                "promises"
            },
            escaped(variant),
        )
    });
    let items: String = items.collect();
    match items.as_str() {
        "" => String::new(),
        items => format!("<ul class=\"summary\">{items}</ul>"),
    }
}

/// How many promises were kept, and by which evidence.
fn kept(verdicts: &[&Verdict]) -> (usize, &'static str) {
    let count = |is: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|one| is(one)).count();
    match count(&is_only_predicted) == verdicts.len() {
        true => (
            count(&|one| one.outlook == Some(Outlook::Kept)),
            "kept as predicted",
        ),
        false => (count(&|one| one.outcome == Outcome::Met), "met"),
    }
}

/// Whether a verdict rests on a prediction alone.
fn is_only_predicted(verdict: &Verdict) -> bool {
    verdict.outcome == Outcome::NotMeasured && verdict.outlook.is_some()
}

pub(super) fn interruptions(report: &RunReport) -> String {
    let whole = report
        .interrupted
        .iter()
        .map(|why| format!("The run ended early: {why}"));
    let parts = report.variants.iter().flat_map(|result| {
        result
            .measured
            .iter()
            .enumerate()
            .filter_map(|(index, run)| {
                let why = run.interrupted.as_ref()?;
                Some(format!(
                    "Run {} of {} in {} ended early: {why}",
                    index + 1,
                    result.service,
                    result.variant
                ))
            })
    });
    let lines: String = whole
        .chain(parts)
        .map(|line| format!("<p>{}</p>", escaped(&line)))
        .collect();
    match lines.as_str() {
        "" => String::new(),
        lines => format!("<aside class=\"notice\" role=\"note\">{lines}</aside>\n"),
    }
}

pub(super) fn promises(report: &RunReport) -> String {
    let rows: String = report
        .variants
        .iter()
        .flat_map(|result| {
            result
                .verdicts
                .iter()
                .map(move |verdict| promise_row(result, verdict))
        })
        .collect();
    if rows.is_empty() {
        return "<section id=\"promises\"><h2>Promises</h2><p class=\"note\">The description \
                promises nothing: give a service <code>slos</code> to have them judged.</p>\
                </section>\n"
            .into();
    }
    let measured = format!(
        "A promise is met if the whole {}% confidence interval of the measured percentile lies within it, \
         and missed if the whole interval lies beyond.",
        crate::CONFIDENCE * 100.0
    );
    let mut verdicts = report.variants.iter().flat_map(|one| &one.verdicts);
    let note = match verdicts.all(is_only_predicted) {
        true => {
            "Nothing was measured. A promise is kept if the predicted percentile lies within it with both \
             ends, and missed if it lies beyond with both."
        }
        false => &measured,
    };
    format!(
        "<section id=\"promises\"><h2>Promises</h2><p class=\"note\">{note}</p>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Promises\">\
         <table class=\"promises\" id=\"table-verdicts\"><thead><tr>\
         <th scope=\"col\">Outcome</th><th scope=\"col\">Promised</th><th scope=\"col\">Variant</th>\
         <th scope=\"col\" class=\"n\">Predicted</th><th scope=\"col\" class=\"n\">Measured</th>\
         <th scope=\"col\" class=\"chart\"><span class=\"hidden\">Chart</span></th>\
         </tr></thead><tbody>{rows}</tbody></table></div>\
         <p class=\"key\"><span class=\"k-promise\"></span>promised \
         <span class=\"k-predicted\"></span>predicted <span class=\"k-measured\"></span>measured, \
         with its confidence interval</p></section>\n"
    )
}

fn promise_row(result: &VariantResult, verdict: &Verdict) -> String {
    let about = match &verdict.slo.task {
        Some(task) => format!("{} \u{203a} {task}", result.service),
        None => result.service.clone(),
    };
    let interval = verdict.measured.map(readable_interval);
    let detail = interval.map_or(String::new(), |text| format!("<small>{text}</small>"));
    let outlook = verdict.outlook.filter(|_| !is_only_predicted(verdict));
    let outlook = outlook.map_or(String::new(), |word| format!("<small>{word}</small>"));
    format!(
        "<tr class=\"group\"><td data-label=\"Outcome\">{}</td>\
         <th scope=\"row\" data-label=\"Promised\">{} within {}<small>{}</small></th>\
         <td data-label=\"Variant\">{}</td>\
         <td class=\"n\" data-label=\"Predicted\"{}>{}{outlook}</td>\
         <td class=\"n\" data-label=\"Measured\"{}>{}{detail}</td>\
         <td class=\"chart\">{}</td></tr>",
        pill(verdict),
        escaped(&verdict.slo.percentile.to_string()),
        readable(verdict.slo.latency),
        escaped(&about),
        escaped(&result.variant),
        value_attributes(verdict.predicted),
        readable_option(verdict.predicted),
        value_attributes(verdict.quantile),
        readable_option(verdict.quantile),
        bullet(verdict),
    )
}

/// The outcome, or the outlook of what was only predicted, as a word with a sign, so that it does not hang on
/// colour.
fn pill(verdict: &Verdict) -> String {
    let outlook = verdict.outlook.filter(|_| is_only_predicted(verdict));
    let (class, sign, word) = match (outlook, verdict.outcome) {
        (Some(Outlook::Kept), _) => ("met", "\u{2713}", Outlook::Kept.word()),
        (Some(Outlook::Missed), _) => ("missed", "\u{2715}", Outlook::Missed.word()),
        (Some(Outlook::Undecided), _) => ("undecided", "?", Outlook::Undecided.word()),
        (Some(Outlook::NotPredicted), _) => {
            ("unmeasured", "\u{2013}", Outlook::NotPredicted.word())
        }
        (None, Outcome::Met) => ("met", "\u{2713}", Outcome::Met.word()),
        (None, Outcome::Missed) => ("missed", "\u{2715}", Outcome::Missed.word()),
        (None, Outcome::Undecided) => ("undecided", "?", Outcome::Undecided.word()),
        (None, Outcome::NotMeasured) => ("unmeasured", "\u{2013}", Outcome::NotMeasured.word()),
    };
    format!("<span class=\"pill {class}\"><span aria-hidden=\"true\">{sign}</span> {word}</span>")
}

/// The exact value behind a rounded text, for scripts.
fn value_attributes(value: Option<Interval>) -> String {
    let Some(Interval { low, high }) = value else {
        return String::new();
    };
    let high = high.map_or(String::new(), |high| {
        format!(" data-high-ns=\"{}\"", high.as_nanos())
    });
    format!(" data-low-ns=\"{}\"{high}", low.as_nanos())
}

/// A small picture of a verdict on a scale from nothing to somewhat beyond the promise; what lies
/// further out is cut at the right edge.
fn bullet(verdict: &Verdict) -> String {
    const WIDTH: f64 = 200.0;
    let whole = verdict.slo.latency.as_nanos() as f64 * 1.6;
    if whole <= 0.0 {
        return String::new();
    }
    let x = |at: Duration| (at.as_nanos() as f64 / whole).min(1.0) * WIDTH;
    let span = |interval: Interval| (x(interval.low), interval.high.map_or(WIDTH, x));
    let mut parts = String::new();
    if let Some((low, high)) = verdict.predicted.map(span) {
        parts.push_str(&format!(
            "<rect class=\"b-predicted\" x=\"{low:.1}\" y=\"3\" width=\"{:.1}\" height=\"18\" \
             rx=\"1.5\"/>",
            (high - low).max(3.0)
        ));
    }
    if let Some((low, high)) = verdict.measured.map(span) {
        parts.push_str(&format!(
            "<line class=\"b-interval\" x1=\"{low:.1}\" x2=\"{:.1}\" y1=\"12\" y2=\"12\"/>",
            high.max(low + 1.0)
        ));
    }
    if let Some((low, _)) = verdict.quantile.map(span) {
        let beyond = low >= WIDTH;
        parts.push_str(&if beyond {
            format!(
                "<path class=\"b-point\" d=\"M{} 7l6 5l-6 5Z\"/>",
                WIDTH - 6.0
            )
        } else {
            format!("<circle class=\"b-point\" cx=\"{low:.1}\" cy=\"12\" r=\"3.6\"/>")
        });
    }
    let promise = x(verdict.slo.latency);
    format!(
        "<svg class=\"bullet\" viewBox=\"-4 0 208 24\" width=\"208\" height=\"24\" \
         aria-hidden=\"true\"><line class=\"b-base\" x1=\"0\" x2=\"{WIDTH}\" y1=\"12\" y2=\"12\"/>\
         {parts}<line class=\"b-promise\" x1=\"{promise:.1}\" x2=\"{promise:.1}\" y1=\"0\" \
         y2=\"24\"/></svg>"
    )
}

pub(super) fn warnings(report: &RunReport) -> String {
    let items: String = report
        .warnings
        .iter()
        .map(|warning| {
            format!(
                "<li><b>{}</b><span>{}</span></li>",
                escaped(&warning.what),
                escaped(&warning.advice)
            )
        })
        .collect();
    match items.as_str() {
        "" => String::new(),
        items => format!(
            "<section id=\"warnings\"><h2>What may spoil the result</h2>\
             <ul class=\"warnings\">{items}</ul></section>\n"
        ),
    }
}

pub(super) fn latencies(plots: &[Plot]) -> String {
    let figures: String = plots
        .iter()
        .enumerate()
        .map(|(index, plot)| figure(index, plot))
        .collect();
    match figures.as_str() {
        "" => String::new(),
        figures => {
            format!("<section id=\"distributions\"><h2>Distributions</h2>{figures}</section>\n")
        }
    }
}

fn figure(index: usize, plot: &Plot) -> String {
    let legend: String = plot
        .series
        .iter()
        .enumerate()
        .map(|(place, series)| {
            let class = match series.kind {
                SeriesKind::Predicted if series.lower.is_some() => "band",
                SeriesKind::Predicted => "thin",
                SeriesKind::Simulated => "dashed",
                SeriesKind::Measured => "solid",
            };
            let begins = place == 0 || plot.series[place - 1].variant != series.variant;
            let first = if begins { " class=\"first\"" } else { "" };
            format!(
                "<li{first}><button type=\"button\" data-series=\"{place}\" aria-pressed=\"true\">\
                 <span class=\"swatch {class} v{}\" aria-hidden=\"true\"></span>\
                 <span class=\"name\">{}</span><output></output></button></li>",
                series.colour % Theme::Light.palette().variants().len(),
                escaped(&series.label)
            )
        })
        .collect();
    let description = escaped(&plot.description);
    let scale = plot.scale(VerticalAxis::Share);
    format!(
        "<figure class=\"plot\" data-plot=\"{index}\" id=\"{}\">\
         <div class=\"plot-head\"><h3>{}</h3><div class=\"controls\">\
         <div class=\"choice\" role=\"group\" aria-label=\"Vertical axis\">\
         <button type=\"button\" data-axis=\"share\" aria-pressed=\"true\">Distribution</button>\
         <button type=\"button\" data-axis=\"tail\" aria-pressed=\"false\">Tail</button></div>\
         <div class=\"choice\" role=\"group\" aria-label=\"Latency axis\">\
         <button type=\"button\" data-scale=\"linear\" aria-pressed=\"{}\">Linear</button>\
         <button type=\"button\" data-scale=\"log\" aria-pressed=\"{}\">Log</button></div>\
         </div></div>\
         <p class=\"axis-title\">{}</p>\
         <div class=\"canvas\" role=\"img\" aria-label=\"{description}\"></div>\
         <noscript>{}</noscript>\
         <ul class=\"legend\" aria-label=\"Series; press to hide or show\">{legend}</ul>\
         <figcaption><p class=\"hint\">Drag to zoom in, double-click to zoom out.</p>\
         <details><summary>The plot in words</summary><p>{description}</p></details>\
         </figcaption></figure>\n",
        plot.id,
        escaped(&plot.service),
        scale == Scale::Linear,
        scale == Scale::Logarithmic,
        escaped(&capitalised(&plot.quantity.title(VerticalAxis::Share))),
        render_svg(plot, VerticalAxis::Share, Theme::Light),
    )
}

pub(super) fn table_section(table: &Table) -> String {
    format!(
        "<section id=\"{id}\"><h2>{title}</h2><p class=\"note\">{}</p>{}</section>\n",
        escaped(&table.note),
        table_markup(table),
        id = table.id,
        title = table.title,
    )
}

/// A table as markup, which scrolls within the page.
pub(crate) fn table_markup(table: &Table) -> String {
    let heads: String = table
        .columns
        .iter()
        .map(|column| {
            let class = if column.numeric { " class=\"n\"" } else { "" };
            format!("<th scope=\"col\"{class}>{}</th>", escaped(&column.name))
        })
        .collect();
    let mut rows = String::new();
    let mut above: Option<&Vec<Cell>> = None;
    for row in &table.rows {
        let same_group = above.is_some_and(|above| {
            above
                .iter()
                .take(2)
                .map(|cell| &cell.text)
                .eq(row.iter().take(2).map(|cell| &cell.text))
        });
        rows.push_str(if same_group {
            "<tr>"
        } else {
            "<tr class=\"group\">"
        });
        for (place, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            rows.push_str(&cell_markup(cell, column.numeric, place == 0));
        }
        rows.push_str("</tr>");
        above = Some(row);
    }
    let id = match table.id {
        "" => String::new(),
        id => format!(" id=\"table-{id}\""),
    };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\
         <table{id}><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>",
        table.title
    )
}

fn cell_markup(cell: &Cell, numeric: bool, is_head: bool) -> String {
    let detail = cell.detail.as_ref().map_or(String::new(), |detail| {
        format!("<small>{}</small>", escaped(detail))
    });
    let text = escaped(&cell.text);
    if is_head {
        return format!("<th scope=\"row\">{text}{detail}</th>");
    }
    let class = if numeric { " class=\"n\"" } else { "" };
    format!(
        "<td{class}{}>{text}{detail}</td>",
        value_attributes(cell.value)
    )
}
