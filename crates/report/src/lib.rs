//! Results of a run: one document, rendered as JSON, HTML, SVG, PNG and rows for a terminal.
//!
//! [`RunReport`] is what a run found out; [`Verdict::decide`] and [`compare`] compute what it says
//! about promises and differences. Everything else renders: [`RunReport::to_json`],
//! [`render_html`], [`tables`], and [`plots`] with [`render_svg`] and [`render_png`].
//!
//! Subsystems add their data, tables and pictures as a [`ReportSection`].
//!
//! A window of a simulated schedule is drawn by [`render_schedule_svg`] and
//! [`render_schedule_html`]; the course of a mode change by [`render_timeline_svg`] and
//! [`render_timeline_html`]; quantities over intervals by [`render_steps_svg`] and [`render_steps_html`].

mod bands;
mod column_stack;
mod comparison;
mod documents;
mod figures;
mod html;
mod json;
mod otlp;
mod palette;
mod plot;
#[cfg(feature = "png")]
mod png;
pub mod run_report;
mod schedule;
mod section;
mod step_response;
mod svg;
mod table;
mod ticks;
mod timeline;
mod verdict;
mod wording;

pub use bands::{BandRun, BandsSection, HistoryNote, RunQuantile, ServiceBand, forecast_line};
pub use column_stack::{StackedColumn, StackedLayer, StackedPicture, render_stacked_svg};
pub use comparison::{
    Difference, PERCENTILES, PossibleValues, QuantileOrder, QuantilePair, compare, noise_floor,
};
pub use figures::{
    ColumnGroup, ColumnGroupPicture, CurvePicture, CurvePoint, FigurePage, FigureSection,
    NumberCurve, NumberLevel, PageFigure, SurfaceCell, SurfaceMark, SurfacePicture,
    render_figures_html,
};
pub use html::{
    PredictedService, PredictionPage, SizingGrid, SizingPage, render_html, render_prediction_html,
    render_sizing_html,
};
pub use json::ReportError;
pub use palette::Theme;
pub use plot::{
    Plot, PlotSeries, PlottedQuantity, PromiseMark, Scale, SeriesKind, VerticalAxis, plots,
};
#[cfg(feature = "png")]
pub use png::{PngError, render_png};
pub use run_report::*;
pub use schedule::{SchedulePage, SchedulePicture, render_schedule_html, render_schedule_svg};
pub use section::{PictureSection, ReportSection, check_sections, report_plots};
pub use step_response::{StepPanel, StepPicture, render_steps_html, render_steps_svg};
pub use svg::{render_svg, render_svg_on};
pub use table::{
    Cell, Column, RowIntervals, Table, columns, merge_by_name, quantile_names, quantile_row, tables,
};
pub use timeline::{TimelinePicture, render_timeline_html, render_timeline_svg};
pub use verdict::CONFIDENCE;
pub use wording::{UNKNOWN, readable, readable_interval};
