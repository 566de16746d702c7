package main

import (
	"bytes"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// picture is a drawing as files without their endings.
type picture struct {
	name, title string
	svg, png    []byte
}

// drawing is panels in rows, with one legend for all of them beside.
type drawing struct {
	title         string
	cols          int
	width, height vg.Length // of a panel
	panels        []*plot.Plot
	legend        plot.Legend
	listed        []string // in the legend
}

func init() {
	plot.DefaultFont.Variant = "Sans"
	plotter.DefaultFont.Variant = "Sans"
}

func newDrawing(title string, cols int) *drawing {
	f := &drawing{title: title, cols: cols, width: panelWidth, height: panelHeight, legend: plot.NewLegend()}
	f.legend.Top, f.legend.Left = true, true
	f.legend.ThumbnailWidth = vg.Points(28)
	f.legend.Padding = vg.Points(6)
	return f
}

// Sizes of a drawing and its parts.
const (
	panelWidth  = 11 * vg.Centimeter
	panelHeight = 7.5 * vg.Centimeter
	margin      = 0.3 * vg.Centimeter
	titleHeight = 1.3 * vg.Centimeter
	pngDPI      = 120
)

// render draws it as both kinds of file.
func (f *drawing) render(name string) (picture, error) {
	rows := (len(f.panels) + f.cols - 1) / f.cols
	w := vg.Length(f.cols)*f.width + 2*margin + f.legendWidth()
	h := vg.Length(rows)*f.height + titleHeight + margin
	svg := vgsvg.New(w, h)
	img := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(pngDPI))
	f.draw(draw.New(svg), rows)
	f.draw(draw.New(img), rows)
	pic := picture{name: name, title: f.title}
	for into, canvas := range map[*[]byte]vg.CanvasWriterTo{&pic.svg: svg, &pic.png: vgimg.PngCanvas{Canvas: img}} {
		var buf bytes.Buffer
		if _, err := canvas.WriteTo(&buf); err != nil {
			return picture{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = buf.Bytes()
	}
	// Where the font is not installed, another of the same widths will do.
	pic.svg = bytes.ReplaceAll(pic.svg, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;"))
	return pic, nil
}

// legendWidth is 0 where the only panel needs no legend.
func (f *drawing) legendWidth() vg.Length {
	var widest vg.Length
	for _, name := range f.listed {
		widest = max(widest, f.legend.ThumbnailWidth+f.legend.TextStyle.Width(" "+name)+margin)
	}
	return widest
}

func (f *drawing) draw(c draw.Canvas, rows int) {
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	style := f.legend.TextStyle
	style.Font.Size = font.Points(14)
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	c.FillText(style, vg.Point{X: c.Min.X + margin, Y: c.Max.Y - margin}, f.title)

	legend := f.legendWidth()
	body := draw.Crop(c, margin, -margin-legend, margin, -titleHeight)
	tiles := draw.Tiles{Rows: rows, Cols: f.cols, PadX: margin, PadY: margin}
	grid := make([][]*plot.Plot, rows)
	for i := range rows * f.cols {
		var p *plot.Plot
		if i < len(f.panels) {
			p = f.panels[i]
		}
		grid[i/f.cols] = append(grid[i/f.cols], p)
	}
	for row, canvases := range plot.Align(grid, tiles, body) {
		for col, canvas := range canvases {
			if p := grid[row][col]; p != nil {
				p.Draw(canvas)
			}
		}
	}
	if legend > 0 {
		f.legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-legend-margin/2, 0, 0, -titleHeight))
	}
}

// curvePoint is a median and its spread.
type curvePoint struct {
	x float64
	y ratio
}

// lockCurve is what a lock did.
type lockCurve struct {
	lock   string
	points []curvePoint
}

// panel is a diagram of curves.
type panel struct {
	title, x string
	xs, ys   scale
	curves   []lockCurve
}

// addPanel draws the curves into a panel of their own, and names their locks in
// the legend.
func (f *drawing) addPanel(pl panel) error {
	p := plot.New()
	p.Title.Text = pl.title
	p.X.Label.Text = pl.x
	p.X.Label.Padding = vg.Points(4)
	p.Title.Padding = vg.Points(4)
	p.Y.Tick.Label.YAlign = draw.YCenter
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = color.Gray{Y: 225}, color.Gray{Y: 240}
	p.Add(lines)
	var xs, ys []float64
	for _, c := range pl.curves {
		for _, pt := range c.points {
			xs = append(xs, pt.x)
			ys = append(ys, pt.y.min, pt.y.max)
		}
	}
	pl.xs.apply(&p.X, xs)
	pl.ys.apply(&p.Y, ys)
	// Side by side, the bars of several locks can be seen.
	step := 0.005 * (p.X.Max - p.X.Min)
	left := step * float64(len(pl.curves)-1) / 2
	for i, c := range pl.curves {
		if err := f.addCurve(p, c, pl.xs, pl.ys, step*float64(i)-left); err != nil {
			return err
		}
	}
	p.X.Min -= left
	p.X.Max += left
	f.panels = append(f.panels, p)
	return nil
}

func (f *drawing) addCurve(p *plot.Plot, c lockCurve, xs, ys scale, shift float64) error {
	st := styleOf(c.lock)
	var data struct {
		plotter.XYs
		plotter.YErrors
	}
	for _, pt := range c.points {
		mid := ys.place(pt.y.median)
		data.XYs = append(data.XYs, plotter.XY{X: xs.place(pt.x) + shift, Y: mid})
		data.YErrors = append(data.YErrors, struct{ Low, High float64 }{mid - ys.place(pt.y.min), ys.place(pt.y.max) - mid})
	}
	line, marks, err := plotter.NewLinePoints(data.XYs)
	if err != nil {
		return fmt.Errorf("%s: %w", c.lock, err)
	}
	line.LineStyle = draw.LineStyle{Color: st.color, Width: vg.Points(1.6), Dashes: st.dashes}
	marks.GlyphStyle = draw.GlyphStyle{Color: st.color, Radius: vg.Points(3.2), Shape: st.shape}
	bars, err := plotter.NewYErrorBars(data)
	if err != nil {
		return fmt.Errorf("%s: %w", c.lock, err)
	}
	bars.LineStyle = draw.LineStyle{Color: st.color, Width: vg.Points(0.8)}
	bars.CapWidth = vg.Points(4)
	low, high, left, right := p.Y.Min, p.Y.Max, p.X.Min, p.X.Max
	p.Add(bars, line, marks)
	p.Y.Min, p.Y.Max, p.X.Min, p.X.Max = low, high, left, right // as the scales want them
	if name := lockName(c.lock); !slices.Contains(f.listed, name) {
		f.listed = append(f.listed, name)
		f.legend.Add(name, line, marks)
	}
	return nil
}

// style is how a lock looks in all pictures.
type style struct {
	color  color.Color
	shape  draw.GlyphDrawer
	dashes []vg.Length
}

// Colours of Okabe and Ito, which colour-blind people can tell apart, without
// the yellow, which is hard to see on white.
var curveColors = []color.Color{
	color.RGBA{0, 114, 178, 255},   // blue
	color.RGBA{213, 94, 0, 255},    // vermilion
	color.RGBA{0, 158, 115, 255},   // bluish green
	color.RGBA{204, 121, 167, 255}, // reddish purple
	color.RGBA{230, 159, 0, 255},   // orange
	color.RGBA{86, 180, 233, 255},  // sky blue
	color.RGBA{0, 0, 0, 255},
}

var curveShapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{},
	draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{},
}

// styleOf gives each lock there is a style of its own; locks of other names get
// one by their name, with a dashed line.
func styleOf(lock string) style {
	i := lockIndex(allLocks, lock)
	var dashes []vg.Length
	if i < 0 || i >= len(curveColors) {
		dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		i = 0
		for _, b := range []byte(lock) {
			i = (i*31 + int(b)) % len(curveColors)
		}
	}
	return style{curveColors[i], curveShapes[i], dashes}
}

// lockName is the full name of a lock that has a key.
func lockName(key string) string {
	if i := lockIndex(allLocks, key); i >= 0 {
		return allLocks[i].name
	}
	return key
}

// scale is a kind of axis. A logarithmic one is drawn as a linear one of the
// logarithms, as plot.LogScale misplaces the axis' label.
type scale struct {
	log   bool
	at    map[float64]string   // labels of the values that are to have one; nil: round numbers
	label func(float64) string // of round numbers on a logarithmic axis
}

// place is where a value stands.
func (s scale) place(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v
}

// apply fits an axis to values, which are above 0 if it is logarithmic.
func (s scale) apply(a *plot.Axis, values []float64) {
	low, high := slices.Min(values), slices.Max(values)
	switch {
	case s.at != nil:
	case s.log:
		low, high = roundBelow(low), roundAbove(high)
	default:
		low, high = min(0, low), high*1.04
	}
	a.Min, a.Max = s.place(low), s.place(high)
	if a.Min == a.Max {
		a.Min, a.Max = a.Min-1, a.Max+1
	}
	switch {
	case s.at != nil:
		a.Tick.Marker = plot.ConstantTicks(s.labelled(a.Norm))
	case s.log:
		a.Tick.Marker = plot.ConstantTicks(s.logTicks(low, high))
	}
}

// crowded is the part of an axis within which two labels would touch.
const crowded = 0.075

// labelled makes ticks of the values that are to have a label, without it where
// they are crowded. The last one keeps it.
func (s scale) labelled(norm func(float64) float64) []plot.Tick {
	values := slices.Sorted(maps.Keys(s.at))
	end := norm(s.place(values[len(values)-1]))
	var ticks []plot.Tick
	last := math.Inf(-1)
	for i, v := range values {
		t := plot.Tick{Value: s.place(v)}
		at := norm(t.Value)
		if i == len(values)-1 || at-last >= crowded && end-at >= crowded {
			t.Label = s.at[v]
			last = at
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// roundBelow is the next number 1, 2 or 5 times a power of ten that is not above
// x.
func roundBelow(x float64) float64 {
	decade := int(math.Floor(math.Log10(x)))
	for _, m := range []float64{5, 2, 1} {
		if v := m * math.Pow10(decade); v <= x {
			return v
		}
	}
	return 5 * math.Pow10(decade-1)
}

func roundAbove(x float64) float64 {
	decade := int(math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if v := m * math.Pow10(decade); v >= x {
			return v
		}
	}
	return math.Pow10(decade + 1)
}

// logTicks labels powers of ten, and 2 and 5 times those too where there are
// few.
func (s scale) logTicks(low, high float64) []plot.Tick {
	few := high/low < 200
	var ticks []plot.Tick
	for d := int(math.Floor(math.Log10(low))); math.Pow10(d) <= high; d++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow10(d)
			if v < low || v > high {
				continue
			}
			t := plot.Tick{Value: s.place(v)}
			if m == 1 || few && (m == 2 || m == 5) {
				t.Label = s.label(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

func plainNumber(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
