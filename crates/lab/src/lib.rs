//! The lab: problems, runs on disk, and what can be learnt from them.
//!
//! [`run`] is a run's folder: what was asked, every finished prompt, and what came out. [`report`] compares any number of
//! runs, and [`statistics`] says how sure its numbers are.

pub mod report;
pub mod run;
pub mod statistics;
