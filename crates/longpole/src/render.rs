//! TODO room render

pub(crate) mod answer;
pub(crate) mod cpu_holders;
pub(crate) mod events;
pub(crate) mod flame_graph;
pub(crate) mod graph_svg;
pub(crate) mod light;
pub(crate) mod path_graph;
pub(crate) mod repeated;
pub(crate) mod stacks;
pub(crate) mod strip;
pub(crate) mod table;
pub(crate) mod values;
pub(crate) mod wait_graph;
pub(crate) mod wait_graph_svg;
