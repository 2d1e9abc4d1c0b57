package block

// Reclaim takes every block back without asking its holder, and keeps the memory mapped. It is for simulators, whose
// holders died with a simulated power cut: any block that was out must never be touched again.
func (p *Pool) Reclaim() {
	p.idle = p.idle[:0]
	for i, c := range p.chunks {
		if c.blocks != nil {
			for j := range c.blocks.headers {
				c.blocks.headers[j].refs = 0
			}
			p.spare[c.class] = append(p.spare[c.class], c.blocks)
		}
		p.chunks[i] = &chunk{memory: c.memory, index: c.index}
		p.idle = append(p.idle, p.chunks[i])
	}
	p.open = [classes]list{}
	p.whole, p.inUse = 0, 0
}
