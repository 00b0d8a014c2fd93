//! Answers, one file per question.
//!
//! Every analysis is an observer of one streaming pass ([`session`]): it sees each step once, in the order of time, and keeps
//! sums and histograms ([`histogram`]), never events. So memory does not grow with the length of a trace, only with the number of
//! threads; names, queues ([`distinct`]) and what is in flight at one moment (calls, tokens) are capped.
//! Percentiles are within 1 % of the true value.
//!
//! No analysis may look at what a name means: systems are judged by their structure and by kinds ([`longpole_model::kinds`]), and names are only repeated.

pub mod blame;
pub mod change;
pub mod clock_sync;
pub mod consumer;
pub mod counters;
pub mod cpu;
pub mod critical_samples;
mod cut;
mod depth;
pub mod diff;
pub mod distinct;
pub mod exchanges;
mod facts;
pub mod family;
pub mod file_locks;
pub mod findings;
pub mod flight;
pub mod folded;
pub mod histogram;
pub mod inversions;
pub mod journeys;
pub mod judge;
pub mod keepers;
pub mod kernel_facts;
pub mod latency;
pub mod left_out;
pub mod lineage;
pub mod links;
pub mod linux_account;
pub mod linux_blocked;
pub mod linux_cpu;
pub mod linux_irq;
pub mod linux_sched;
pub mod linux_syscalls;
pub mod machine_log;
pub mod nearest;
pub mod not_recorded;
pub mod packet_loss;
pub mod packets;
pub mod pairs;
pub mod participation;
pub mod parts;
mod path_facts;
mod pools;
pub mod predicted;
pub mod queues;
pub mod repeated;
pub mod report;
pub mod samples;
pub mod seen;
pub mod session;
mod shares;
pub mod stacks;
pub mod stages;
pub mod stays;
pub mod steps;
pub mod text;
pub mod waits;
pub mod what_if;
pub mod windows;
