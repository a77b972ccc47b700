//! Photos as inputs of ImageNet models, and names of classes.

use std::error::Error;
use std::fs;

pub type Answer<T> = Result<T, Box<dyn Error>>;

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Red, green and blue of each pixel, row by row.
pub struct Photo {
    pub width: usize,
    pub height: usize,
    pixels: Vec<u8>,
}

/// The next word of a PPM header, and the bytes after it and one blank.
fn word(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let length = bytes[start..].iter().position(|byte| byte.is_ascii_whitespace())?;
    let text = std::str::from_utf8(&bytes[start..start + length]).ok()?;
    Some((text, &bytes[start + length + 1..]))
}

fn parse_ppm(bytes: &[u8]) -> Option<Photo> {
    let (magic, rest) = word(bytes)?;
    let (width, rest) = word(rest)?;
    let (height, rest) = word(rest)?;
    let (largest, rest) = word(rest)?;
    let (width, height) = (width.parse().ok()?, height.parse().ok()?);
    let size = 3usize.checked_mul(width)?.checked_mul(height)?;
    match magic == "P6" && largest == "255" && size > 0 && rest.len() >= size {
        true => Some(Photo { width, height, pixels: rest[..size].to_vec() }),
        false => None,
    }
}

pub fn read_ppm(path: &str) -> Answer<Photo> {
    let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(parse_ppm(&bytes).ok_or_else(|| format!("{path}: cannot be read as a PPM file (P6) with 8 bits"))?)
}

/// A channel at a position between pixels.
fn interpolate(photo: &Photo, y: f32, x: f32, channel: usize) -> f32 {
    let (y, x) = (y.clamp(0.0, (photo.height - 1) as f32), x.clamp(0.0, (photo.width - 1) as f32));
    let (top, left) = (y as usize, x as usize);
    let (bottom, right) = ((top + 1).min(photo.height - 1), (left + 1).min(photo.width - 1));
    let at = |row: usize, column: usize| f32::from(photo.pixels[(row * photo.width + column) * 3 + channel]);
    let (down, across) = (y - top as f32, x - left as f32);
    let above = at(top, left) * (1.0 - across) + at(top, right) * across;
    let below = at(bottom, left) * (1.0 - across) + at(bottom, right) * across;
    above * (1.0 - down) + below * down
}

/// The middle of the photo, scaled so that its short side would be 256/224 of the input, normalized as for ImageNet.
pub fn prepare(photo: &Photo, height: usize, width: usize) -> Vec<f32> {
    let fit = (height as f32 / photo.height as f32).max(width as f32 / photo.width as f32);
    let scale = fit * 256.0 / 224.0;
    let place =
        |at: usize, size: usize, all: usize| (at as f32 + 0.5 - size as f32 / 2.0) / scale + all as f32 / 2.0 - 0.5;
    let mut values = Vec::with_capacity(3 * height * width);
    for channel in 0..3 {
        for row in 0..height {
            for column in 0..width {
                let (y, x) = (place(row, height, photo.height), place(column, width, photo.width));
                values.push((interpolate(photo, y, x, channel) / 255.0 - MEAN[channel]) / STD[channel]);
            }
        }
    }
    values
}

/// The name of the class with the highest score, a line of the file `labels`, and its probability.
pub fn name_of(scores: &[f32], labels: &str) -> Answer<(String, f64)> {
    let (best, score) = (0..).zip(scores).max_by(|a, b| a.1.total_cmp(b.1)).ok_or("the model has no scores")?;
    let sum: f64 = scores.iter().map(|other| f64::from(other - score).exp()).sum();
    let text = fs::read_to_string(labels).map_err(|error| format!("{labels}: {error}"))?;
    let name = text.lines().nth(best).ok_or_else(|| format!("{labels}: has no name of class {best}"))?;
    Ok((name.to_string(), 1.0 / sum))
}
