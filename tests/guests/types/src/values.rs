//! Values of every type.

use std::f64::consts::PI;

use super::Types;
use super::bindings::exports::test::types::values::{Everything, Guest, Options, Shape, Trouble};

impl Guest for Types {
    fn echo(all: Everything) -> Everything {
        all
    }

    fn double(number: u64) -> u64 {
        number.wrapping_mul(2)
    }

    fn find(text: String, word: String, options: Options, limit: Option<u32>) -> Result<Vec<u32>, String> {
        if word.is_empty() {
            return Err("an empty word is everywhere".to_owned());
        }
        let fold = |text: &str| {
            if options.contains(Options::IGNORE_CASE) { text.to_lowercase() } else { text.to_owned() }
        };
        let (text, word) = (fold(&text), fold(&word));
        let places = text.match_indices(word.as_str()).filter_map(|(place, _)| u32::try_from(place).ok());
        let mut places: Vec<u32> = places.collect();
        if options.contains(Options::BACKWARDS) {
            places.reverse();
        }
        places.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        Ok(places)
    }

    fn reverse(mut data: Vec<u8>) -> Vec<u8> {
        data.reverse();
        data
    }

    fn area(shape: Shape) -> Result<f64, Trouble> {
        match shape {
            Shape::Empty => Ok(0.0),
            Shape::Circle(radius) => Ok(PI * radius * radius),
            Shape::Polygon(points) => {
                let corners = u32::try_from(points.len()).unwrap_or(u32::MAX);
                if corners < 3 { Err(Trouble::TooFewCorners(corners)) } else { Err(Trouble::Unknown) }
            }
            Shape::Named(name) => Err(Trouble::NoShape(name)),
        }
    }
}
