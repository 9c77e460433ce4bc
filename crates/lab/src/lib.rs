//! The lab: problems, runs on disk, and what can be learnt from them.
//!
//! [`suite`] is what is asked and how it is put to a model, and [`judge`] says whether the responses are right.
//! [`run`] is a run's folder: what was asked, every finished prompt, and what came out. [`mod@bench`] fills such a folder, and
//! [`campaign`] several of them side by side. [`calibrate`] and [`analyze`] learn from runs; [`profiles`] keeps what
//! calibration has found. [`report`] compares any number of runs, and [`statistics`] says how sure its numbers are.
//!
//! Nothing here knows an engine: whoever has one hands it to a campaign.

pub mod analyze;
pub mod bench;
pub mod calibrate;
pub mod campaign;
pub mod judge;
pub mod profiles;
pub mod report;
pub mod run;
pub mod statistics;
pub mod suite;
pub mod theta;
