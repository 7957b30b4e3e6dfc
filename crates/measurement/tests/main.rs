//! Measurements of services that are tests themselves, and of Redis.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod hostile_service;
mod message_services;
mod redis;
mod reports;
mod synthetic_service;
mod testbed;
mod users;
mod web;
