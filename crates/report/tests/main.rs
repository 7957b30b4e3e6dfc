//! Documents, pictures and pages as their readers see them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bands;
mod browser;
mod documents;
mod otlp;
mod sample;
mod sample_schedule;
mod schedule_page;
mod schedules;
mod sizing_page;
mod webdriver;
