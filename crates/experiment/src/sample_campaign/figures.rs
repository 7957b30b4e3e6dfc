//! The report of a campaign: its figures and tables on one page, and each figure as a file.
//!
//! The figures over periods, shares and users are those of Kousiouris and others (Distributed Interactive Real-time
//! Multimedia Applications: A Sampling and Analysis Framework, 2010, figures 4 to 8).

use std::path::{Path, PathBuf};

use tailbound_distribution::Distribution;
use tailbound_report::{
    ColumnGroup, ColumnGroupPicture, CurvePicture, FigurePage, FigureSection, NumberCurve,
    NumberLevel, PageFigure, Plot, PlotSeries, PlottedQuantity, PromiseMark, SeriesKind, Table,
    Theme, columns, readable, render_figures_html,
};
use tailbound_sampling::FittedModel;

use super::SampleError;
use super::campaign_table::{CampaignTable, MeanResponse};
use super::data_set::raw_name;
use super::model_file::model_of;
use super::result::SampledCampaign;
use super::surface_figure::response_surface;
use crate::result_folder::write_file;

/// The page in the folder of a campaign.
const PAGE_FILE: &str = "report.html";
/// The folder of its figures.
const FIGURE_FOLDER: &str = "figures";
/// The most conditions that have figures of their own.
const MOST_CONDITIONS: usize = 4;
/// The most steps that are drawn of a distribution.
const DRAWN_STEPS: usize = 400;

/// Writes the page and its figures into the folder of a campaign; returns the page's path.
///
/// # Errors
/// A file cannot be written.
pub fn write_report(sampled: &SampledCampaign, out: &Path) -> Result<PathBuf, SampleError> {
    let model = model_of(sampled);
    // A campaign without a point that counts has no model.
    let fitted = model.fit(None).ok();
    let page = figure_page(sampled, fitted.as_ref(), out);
    for figure in page.sections.iter().flat_map(|section| &section.figures) {
        let path = out.join(FIGURE_FOLDER).join(format!("{}.svg", figure.id()));
        write_file(&path, figure.render_svg(Theme::Light).as_bytes())?;
    }
    let path = out.join(PAGE_FILE);
    write_file(&path, render_figures_html(&page).as_bytes())?;
    Ok(path)
}

fn figure_page(
    sampled: &SampledCampaign,
    fitted: Option<&FittedModel<'_>>,
    out: &Path,
) -> FigurePage {
    let mut sections = vec![answers(sampled)];
    for service in sampled.campaign.promised(&sampled.description) {
        let table = CampaignTable::of(sampled, service);
        let shown = shown_conditions(&table);
        for (place, condition) in shown.iter().enumerate() {
            let prefix = format!("{}-{}", file_word(service), place + 1);
            sections.push(condition_section(&table, *condition, fitted, &prefix));
        }
        let across = across_conditions(&table, &shown, out);
        if !across.figures.is_empty() {
            sections.push(across);
        }
    }
    let points = sampled.grid.len();
    FigurePage {
        title: format!("{}: reservations that keep its promises", sampled.name),
        tailbound_version: env!("CARGO_PKG_VERSION").to_owned(),
        facts: vec![
            format!("{} measurements of {points} points", sampled.records.len()),
            format!("{}% confidence", sampled.campaign.confidence.0),
        ],
        sections,
    }
}

/// A name with letters that a file name may have.
fn file_word(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let letters = name.chars();
    letters
        .map(|letter| if is_plain(letter) { letter } else { '-' })
        .collect()
}

/// The conditions that have figures: all, or some that are evenly far apart.
fn shown_conditions(table: &CampaignTable<'_>) -> Vec<usize> {
    let count = table.conditions().len();
    match count <= MOST_CONDITIONS {
        true => (0..count).collect(),
        false => (0..MOST_CONDITIONS)
            .map(|place| place * (count - 1) / (MOST_CONDITIONS - 1))
            .collect(),
    }
}

fn answers(sampled: &SampledCampaign) -> FigureSection {
    let header = [
        "condition",
        "promises",
        "budget / period",
        "share",
        "chance of less",
    ];
    let rows = sampled.rows().into_iter().map(|row| {
        [
            row.condition,
            row.outcome,
            row.reservation,
            row.share,
            row.cheaper,
        ]
        .map(tailbound_report::Cell::text)
        .to_vec()
    });
    let table = Table {
        id: "answers",
        title: "Answers",
        note: String::new(),
        columns: columns(&header, &[]),
        rows: rows.collect(),
    };
    FigureSection {
        title: "The cheapest measured reservations".into(),
        note: "Budgets and periods that kept every promise with the least bandwidth, for each condition.".into(),
        remarks: sampled.remarks.clone(),
        tables: vec![table],
        figures: Vec::new(),
    }
}

/// The figures of one condition.
fn condition_section(
    table: &CampaignTable<'_>,
    condition: usize,
    fitted: Option<&FittedModel<'_>>,
    prefix: &str,
) -> FigureSection {
    let words = table.condition_in_words(condition);
    let named = |figure: &str| format!("{prefix}-{figure}");
    let over_period = |id: &str, title: &str, value: fn(&MeanResponse) -> Option<f64>| {
        PageFigure::Curves(CurvePicture {
            id: named(id),
            title: format!("{title} over the period, {words}"),
            about: "A curve for each share of a CPU; points are means of all measurements.".into(),
            x_title: "period (ms)".into(),
            y_title: format!("{} (ms)", title.to_lowercase()),
            curves: table.curves_over_period(condition, value),
            levels: Vec::new(),
        })
    };
    let over_share = PageFigure::Curves(CurvePicture {
        id: named("mean-over-share"),
        title: format!("Mean response time over the share, {words}"),
        about: "A curve for each period of the reservations.".into(),
        x_title: "share of a CPU (%)".into(),
        y_title: "mean response time (ms)".into(),
        curves: table.curves_over_share(condition, |one| one.mean_ms),
        levels: Vec::new(),
    });
    let mut figures = vec![
        over_period("deviation-over-period", "Standard deviation", |one| {
            one.deviation_ms
        }),
        over_period("mean-over-period", "Mean response time", |one| one.mean_ms),
        over_share,
        PageFigure::Curves(quantile_figure(
            table,
            condition,
            fitted,
            named("quantile-over-share"),
        )),
    ];
    let surface = fitted.and_then(|fitted| response_surface(table, condition, fitted));
    figures.extend(surface.map(|mut surface| {
        surface.id = named("surface");
        PageFigure::Surface(surface)
    }));
    figures.retain(|figure| !matches!(figure, PageFigure::Curves(picture) if picture.is_empty()));
    FigureSection {
        title: format!("{}, {words}", table.service),
        note: "The ring marks the answer. Values far beyond the promise are cut off, and marked by triangles.".into(),
        figures,
        ..FigureSection::default()
    }
}

/// The promised quantile over the share at the period of the answer, with the intervals of measurements and model.
fn quantile_figure(
    table: &CampaignTable<'_>,
    condition: usize,
    fitted: Option<&FittedModel<'_>>,
    id: String,
) -> CurvePicture {
    let Some(promise) = table.promise() else {
        return CurvePicture::default();
    };
    let chosen = table.chosen(condition);
    let column = table.points_like(condition, chosen);
    let curve = NumberCurve {
        label: match table.sampled.grid.period(chosen.unwrap_or(column[0])) {
            Some(period) => format!("period {period}"),
            None => "measured".to_owned(),
        },
        points: table.quantile_points(&column, chosen),
        band: fitted.map_or_else(Vec::new, |fitted| table.band(&column, fitted)),
    };
    let limit_ms = promise.limit.as_millis_f64();
    CurvePicture {
        id,
        title: format!(
            "p{} over the share, {}",
            promise.percentile,
            table.condition_in_words(condition)
        ),
        about: "Bars are the intervals of measurements; the band is that of 90% of the model."
            .into(),
        x_title: "share of a CPU (%)".into(),
        y_title: format!("p{} of the latency (ms)", promise.percentile),
        curves: vec![curve],
        levels: vec![NumberLevel {
            label: format!("promised: {}", readable(promise.limit)),
            y: limit_ms,
        }],
    }
}

/// The figures that compare conditions.
fn across_conditions(table: &CampaignTable<'_>, shown: &[usize], out: &Path) -> FigureSection {
    let prefix = file_word(table.service);
    let mut figures = Vec::new();
    for (id, title, value) in [
        (
            "mean",
            "Mean response time",
            (|one: &MeanResponse| one.mean_ms) as fn(&MeanResponse) -> Option<f64>,
        ),
        ("deviation", "Standard deviation", |one| one.deviation_ms),
    ] {
        figures.extend(table.curves_over_condition(value).map(|(key, curves)| {
            PageFigure::Curves(CurvePicture {
                id: format!("{prefix}-{id}-over-condition"),
                title: format!("{title} over {key}"),
                about: "A curve for each share, at the period in the middle of those that were measured.".into(),
                x_title: key,
                y_title: format!("{} (ms)", title.to_lowercase()),
                curves,
                levels: Vec::new(),
            })
        }));
    }
    if let (Some(first), Some(last)) = (shown.first(), shown.last().filter(|_| shown.len() > 1)) {
        figures.push(PageFigure::Columns(all_means(
            table,
            [*first, *last],
            &prefix,
        )));
        let distributions = two_distributions(table, [*first, *last], out, &prefix);
        figures.extend(distributions.map(PageFigure::Distributions));
    }
    figures.retain(|figure| match figure {
        PageFigure::Curves(picture) => !picture.is_empty(),
        PageFigure::Columns(picture) => !picture.is_empty(),
        _ => true,
    });
    FigureSection {
        title: format!("{}, across conditions", table.service),
        note: "The same reservations under other loads.".into(),
        figures,
        ..FigureSection::default()
    }
}

/// The mean response time of all points of two conditions: a group for each period, and columns for each share.
fn all_means(table: &CampaignTable<'_>, pair: [usize; 2], prefix: &str) -> ColumnGroupPicture {
    let groups = table.periods().into_iter().map(|period| ColumnGroup {
        label: period.clone().unwrap_or_default(),
        columns: (table.shares().into_iter())
            .map(|share| {
                let heights = pair.map(|condition| {
                    let point = table.point(condition, share.as_deref(), period.as_deref())?;
                    table.mean(point)?.mean_ms
                });
                let name = share.map_or_else(String::new, |share| format!("share {share}%"));
                (name, heights.to_vec())
            })
            .collect(),
    });
    ColumnGroupPicture {
        id: format!("{prefix}-all-means"),
        title: "Mean response time of all points of two conditions".into(),
        about: "A group for each period; in a group the share of a CPU rises from left to right."
            .into(),
        x_title: "period".into(),
        y_title: "mean response time (ms)".into(),
        series: pair
            .map(|condition| table.condition_in_words(condition))
            .to_vec(),
        groups: groups.collect(),
    }
}

/// The response times of two conditions under the same reservation, the one in the middle of those that both were
/// measured under.
fn two_distributions(
    table: &CampaignTable<'_>,
    pair: [usize; 2],
    out: &Path,
    prefix: &str,
) -> Option<Plot> {
    let points = table.common_points(pair);
    let middle = points.get(points.len() / 2)?;
    let series: Option<Vec<PlotSeries>> = (pair.iter().zip(middle).enumerate())
        .map(|(colour, (condition, point))| {
            let path = out
                .join("raw")
                .join(raw_name(table.measurement_of(*point)?, table.service));
            let text = std::fs::read_to_string(path.with_extension("csv")).ok()?;
            let latencies = Distribution::from_csv(&text).ok()?;
            let (upper, lower) = (latencies.optimistic()?, latencies.pessimistic()?);
            let steps = |curve: &tailbound_distribution::StepCdf| {
                curve.decimate(DRAWN_STEPS).steps().to_vec()
            };
            let label = table.condition_in_words(*condition);
            Some(PlotSeries {
                variant: label.clone(),
                colour,
                kind: SeriesKind::Measured,
                label,
                lower: (lower != upper).then(|| steps(&lower)),
                upper: steps(&upper),
            })
        })
        .collect();
    let promise = table.promise();
    Some(Plot {
        id: format!("{prefix}-distributions"),
        service: format!(
            "{}, {}",
            table.service,
            table.reservation_in_words(middle[0])
        ),
        quantity: PlottedQuantity::LATENCY,
        series: series?,
        promises: promise
            .map(|promise| PromiseMark {
                label: format!(
                    "p{} \u{2264} {}",
                    promise.percentile,
                    readable(promise.limit)
                ),
                latency: promise.limit,
                probability: promise.percentile / 100.0,
            })
            .into_iter()
            .collect(),
        description: "Response times under the same reservation and two loads.".into(),
    })
}
