//! Answers, one file per question.
//!
//! Every analysis is an observer of one streaming pass ([`session`]): it sees each step once, in the order of time, and keeps
//! sums and histograms ([`histogram`]), never events. So memory does not grow with the length of a trace, only with the number of
//! threads; names, queues ([`distinct`]) and what is in flight at one moment (calls, tokens) are capped.
//! Percentiles are within 1 % of the true value.
//!
//! No analysis may look at what a name means: systems are judged by their structure and by kinds ([`longpole_model::kinds`]), and names are only repeated.

pub mod compare;
pub mod critical_path;
pub mod findings;
pub mod latency;
pub mod machine_log;
pub mod network;
pub mod queues;
pub mod report;
pub mod scheduling;
pub mod stages;
pub mod stats;
pub mod verdict;
pub mod wait_graph;
pub mod what_if;
