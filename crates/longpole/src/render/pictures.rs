//! Pictures in SVG and DOT: flame graphs, and the graphs of paths and waits.

pub(crate) mod flame_graph;
pub(crate) mod graph_svg;
pub(crate) mod path_graph;
pub(crate) mod wait_graph_svg;
