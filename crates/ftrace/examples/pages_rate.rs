//! Decodes a file of raw pages several times and prints events per second:
//! `rate FOLDER_WITH_header_page FILE [ROUNDS]`.

use std::time::Instant;

use longpole_ftrace::{ByteOrder, Item, PageLayout, PageStream};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("usage: rate FOLDER_WITH_header_page FILE [ROUNDS]".into());
    };
    let rounds: u32 = arguments.next().map_or(Ok(1), |r| r.parse())?;
    let layout = PageLayout::parse(&std::fs::read_to_string(format!("{folder}/header_page"))?, ByteOrder::NATIVE)?;
    let pages = std::fs::read(file)?;
    for (name, whole) in [("for_each", true), ("next_item", false)] {
        let (mut events, mut sum) = (0u64, 0u64);
        let begin = Instant::now();
        for _ in 0..rounds {
            let mut stream = PageStream::new(&pages[..], layout);
            let mut each = |item: Item<'_>| {
                if let Item::Event(record) = item {
                    events += 1;
                    sum = sum.wrapping_add(record.time ^ u64::from(record.id));
                }
            };
            if whole {
                stream.for_each(each, |error| eprintln!("{error}"));
            } else {
                while let Some(item) = stream.next_item()? {
                    each(item);
                }
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{name}: {events} events, {:.1} M/s, {:.2} GB/s (sum {sum:x})",
            events as f64 / seconds / 1e6,
            pages.len() as f64 * f64::from(rounds) / seconds / 1e9
        );
    }
    Ok(())
}
