//! Answers, one file per question.
//!
//! Every analysis is an observer of one streaming pass ([`session`]): it sees each step once, in the order of time, and keeps
//! sums and histograms ([`histogram`]), never events. So memory does not grow with the length of a trace, only with the number of
//! distinct names, threads and queues, and with what is in flight at one moment (calls, tokens), which is capped.
//! Percentiles are within 1 % of the true value.
//!
//! No analysis may look at what a name means: systems are judged by their structure, and names are only repeated.

pub mod blame;
pub mod cpu;
pub mod findings;
pub mod histogram;
pub mod latency;
pub mod pairs;
pub mod queues;
pub mod report;
pub mod session;
pub mod stages;
pub mod verdict;
pub mod windows;
