//! The lab: problems, runs on disk, and what can be learnt from them.
//!
//! [`run`] is a run's folder: what was asked, every finished prompt, and what came out.

pub mod run;
