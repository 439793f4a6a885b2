package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The plot's measures, in pixels, and its ends, in ratios.
const (
	plotLeft, plotTop     = 270, 60
	plotWidth, rowHeight  = 560, 22
	plotFirst, plotLast   = 0.01, 4.0
	plotRight, plotBottom = 30, 30
)

// colours are the file systems', fit for colour-blind eyes (Okabe and Ito);
// lockfs is drawn last and biggest.
var colours = map[string]string{
	bindFS: "#E69F00", hpFS: "#009E73", "loopback": "#999999", "nolock": "#56B4E9", lockFS: "#D55E00",
}

// plotX is where a ratio is, on a logarithmic scale; what is beyond the ends
// is on them.
func plotX(ratio float64) float64 {
	ratio = min(max(ratio, plotFirst), plotLast)
	return plotLeft + plotWidth*math.Log(ratio/plotFirst)/math.Log(plotLast/plotFirst)
}

// plot draws the ratios as an SVG: a row for each piece of work, a dot for
// each file system.
func (res *result) plot() string {
	var b strings.Builder
	bottom := plotTop + rowHeight*len(res.works)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		plotLeft+plotWidth+plotRight, bottom+plotBottom)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	fmt.Fprintf(&b, `<text x="10" y="20" font-weight="bold">Speed on %s in proportion to native: further right is faster</text>`+"\n", html.EscapeString(res.backing))
	x := plotLeft
	for _, s := range res.systems[1:] {
		fmt.Fprintf(&b, `<circle cx="%d" cy="40" r="5" fill="%s"/><text x="%d" y="44">%s</text>`+"\n", x, colours[s], x+10, s)
		x += 30 + 8*len(s)
	}
	for _, tick := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4} {
		colour := "#DDDDDD"
		if tick == 1 {
			colour = "#000000"
		}
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n",
			plotX(tick), plotX(tick), plotTop, bottom, colour, plotX(tick), bottom+18, tick)
	}
	for i, w := range res.works {
		y := plotTop + rowHeight*i + rowHeight/2
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotLeft-10, y+4, html.EscapeString(w.name))
		for _, s := range res.systems[1:] {
			radius := 4
			if s == lockFS {
				radius = 6
			}
			if v, ok := res.ratio(w.name, s); ok {
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%d" r="%d" fill="%s" fill-opacity="0.8"><title>%s: %s</title></circle>`+"\n",
					plotX(v), y, radius, colours[s], s, res.ratioText(w.name, s))
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
