// Package cms is a count-min sketch: counts of any number of keys, in memory that is
// fixed at construction. A count is never too low. It may be too high.
//
// A [Sketch] is depth rows of width cells. A key has one cell in each row, and its
// estimate is the lowest of them. Other keys in the same cells can only raise them, so
// the estimate is never below the true count (up to [Layout.Max], see below).
//
// There are three ways to count:
//
//   - [Sketch.Add] is the textbook update of Cormode and Muthukrishnan: n is added in
//     every row.
//   - [Sketch.AddBounded] is the conservative update of Estan and Varghese with a
//     bound: cells are raised only as far as estimate + n, and only if that does not
//     pass max. For counts up to a limit it errs a thousand times less often.
//   - [Sketch.Raise] lifts a key to a count that the caller already knows.
//
// Cells are 4, 8, 16 or 32 bits wide, packed in 64-bit words. Cells of less than 32
// bits widen: where a count does not fit, the cell joins the one beside it, and both
// read the greater count from then on. Most keys are light, and their cells stay
// narrow. A count never wraps. It stops at [Layout.Max], so a key with a higher count
// reads Max. Choose the narrowest cells whose Max is the largest count that matters.
//
// The position of a cell in its word is its lane. A key has one lane, the same in all
// rows, and one word in each row. So the lanes are separate sketches in the same words,
// and one shift serves all rows.
//
// Keys are given as 64-bit hashes. The caller chooses the hash and its seed; all 64
// bits must be well mixed. Each row uses 32 bits of its own, of the hash or of further
// mixes of it. So two keys that meet in a word of one row meet in another row no more
// often than by chance. A test checks that.
//
// Sources: G. Cormode, S. Muthukrishnan, "An Improved Data Stream Summary: The
// Count-Min Sketch and its Applications", J. Algorithms 55 (2005). C. Estan, G.
// Varghese, "New Directions in Traffic Measurement and Accounting", SIGCOMM 2002,
// section 3.3.2 (conservative update). R. Ben Basat, G. Einziger, M. Mitzenmacher, S.
// Vargaftik, "SALSA: Self-Adjusting Lean Streaming Analytics", ICDE 2021 (cells that
// join; there they keep a bit beside for it).
package cms
