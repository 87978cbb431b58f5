// Package cms holds a count-min sketch: counts of any number of keys in memory
// that is fixed at construction, wrong in one direction only.
//
// A [Sketch] is depth rows of width cells. A key owns one cell in each row and its
// estimate is the least of them. Whatever else lies in those cells can only have
// raised them, so the estimate is never below the true count.
//
// There are three ways to count:
//
//   - [Sketch.Add] is the textbook update of Cormode and Muthukrishnan: n is added
//     in every row.
//   - [Sketch.AddBounded] is the conservative update of Estan and Varghese with a
//     bound: cells are raised only as far as estimate + n, and only if that does
//     not pass max. For counts up to a limit it errs a thousand times less often.
//   - [Sketch.Raise] lifts a key to a count that the caller already knows.
//
// Cells are 4, 8, 16 or 32 bits wide, packed in 64-bit words. A cell never wraps:
// it stops at [Layout.Max], and from then on its keys read Max or more than
// their count no longer. Take cells that hold the largest count that matters;
// half the cell is twice the width.
//
// A word holds one cell for each of its lanes. A key belongs to one lane, and draws
// a word in each row: the lanes are sketches of their own that lie in the same words,
// which lets one shift serve all rows.
//
// Keys arrive as 64-bit hashes that the caller has mixed well, with a seed of the
// caller's choice. The rows draw on disjoint halves of the hash and of a second
// mix of it: two keys that meet in a word of one row meet in another's no more often
// than chance, and a test holds that.
//
// Sources: G. Cormode, S. Muthukrishnan, "An Improved Data Stream Summary: The
// Count-Min Sketch and its Applications", J. Algorithms 55 (2005). C. Estan,
// G. Varghese, "New Directions in Traffic Measurement and Accounting", SIGCOMM
// 2002, section 3.3.2 (conservative update).
package cms
