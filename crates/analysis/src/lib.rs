//! Analyses of a trace, one module per question.
//!
//! An analysis receives one of three streams, each in the order of time and only once: the steps of
//! probes ([`step_pass::Observer`]: queues, latencies, stages), interactions
//! ([`pipeline::Follower`]: critical path, replay, wait graph, traffic), or the states of the
//! kernel's model ([`longpole_model::linux::watch::Watch`]: scheduling, network, kernel facts).
//! [`pipeline`] reads a trace once and feeds all of them.
//!
//! An analysis keeps sums and histograms; what must be read again (interactions, segments of the
//! path) goes to a temporary file. Memory therefore does not grow with the length of a trace, only
//! with the number of threads; the numbers of names, queues, and items in flight (calls, tokens)
//! are limited. Percentiles are within 1 % of the true value.
//!
//! No analysis may depend on what a name means: systems are judged by their structure and by kinds
//! ([`longpole_model::kinds`]), and names are only repeated in the output.

pub mod compare;
pub mod counters;
pub mod critical_path;
pub mod findings;
pub mod latency;
pub mod live;
pub mod machine_log;
pub mod network;
pub mod pipeline;
pub mod queues;
pub mod report;
pub mod scheduling;
pub mod stages;
pub mod stats;
pub mod step_pass;
pub mod timeline;
pub mod verdict;
pub mod wait_graph;
pub mod what_if;
