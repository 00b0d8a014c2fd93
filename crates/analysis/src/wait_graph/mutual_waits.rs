//! Strongly connected components of a directed graph (Tarjan 1972), without recursion, since a
//! chain may be as long as there are machines.

/// Returns the components of `count` nodes, each sorted. `edges` lead from the first node to the
/// second. A component comes after all components that can be reached from it.
pub fn components(count: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut first = vec![0usize; count + 1];
    for &(from, _) in edges {
        first[from as usize + 1] += 1;
    }
    for at in 0..count {
        first[at + 1] += first[at];
    }
    let (mut next, mut targets) = (first.clone(), vec![0u32; edges.len()]);
    for &(from, to) in edges {
        targets[next[from as usize]] = to;
        next[from as usize] += 1;
    }
    const NEW: u32 = u32::MAX;
    let (mut index, mut low) = (vec![NEW; count], vec![0u32; count]);
    let (mut open, mut is_open) = (Vec::new(), vec![false; count]);
    let (mut out, mut time) = (Vec::new(), 0u32);
    for root in 0..count as u32 {
        if index[root as usize] != NEW {
            continue;
        }
        // Node, and index of its next edge.
        let mut way = vec![(root, first[root as usize])];
        while let Some((node, edge)) = way.pop() {
            let at = node as usize;
            if index[at] == NEW {
                (index[at], low[at]) = (time, time);
                time += 1;
                open.push(node);
                is_open[at] = true;
            }
            if edge < first[at + 1] {
                way.push((node, edge + 1));
                let to = targets[edge] as usize;
                if index[to] == NEW {
                    way.push((to as u32, first[to]));
                } else if is_open[to] {
                    low[at] = low[at].min(index[to]);
                }
                continue;
            }
            if let Some(&(before, _)) = way.last() {
                low[before as usize] = low[before as usize].min(low[at]);
            }
            if low[at] == index[at] {
                let mut component = Vec::new();
                while let Some(member) = open.pop() {
                    is_open[member as usize] = false;
                    component.push(member);
                    if member == node {
                        break;
                    }
                }
                component.sort_unstable();
                out.push(component);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::components;
    use proptest::prelude::*;

    #[test]
    fn a_cycle_is_one_component_and_a_chain_is_many() {
        assert_eq!(components(3, &[(0, 1), (1, 2), (2, 0)]), [[0, 1, 2]]);
        assert_eq!(components(3, &[(0, 1), (1, 2)]), [[2], [1], [0]]);
        let long: Vec<(u32, u32)> = (0..100_000).map(|at| (at, at + 1)).collect();
        assert_eq!(components(100_001, &long).len(), 100_001);
    }

    proptest! {
        #[test]
        fn two_nodes_share_a_component_if_each_reaches_the_other(edges in prop::collection::vec((0u32..12, 0u32..12), 0..40)) {
            let mut reach = [[false; 12]; 12];
            (0..12).for_each(|at| reach[at][at] = true);
            edges.iter().for_each(|&(from, to)| reach[from as usize][to as usize] = true);
            for by in 0..12 {
                for from in 0..12 {
                    for to in 0..12 {
                        reach[from][to] |= reach[from][by] && reach[by][to];
                    }
                }
            }
            let found = components(12, &edges);
            let mut of = [usize::MAX; 12];
            found.iter().enumerate().for_each(|(at, members)| members.iter().for_each(|&member| of[member as usize] = at));
            for from in 0..12 {
                for to in 0..12 {
                    prop_assert_eq!(of[from] == of[to], reach[from][to] && reach[to][from]);
                    prop_assert!(!reach[from][to] || of[to] <= of[from]);
                }
            }
        }
    }
}
